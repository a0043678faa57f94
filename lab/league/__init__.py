"""The league: policies ranked on the webs of RefreshBench."""
