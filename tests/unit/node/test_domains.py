"""Hosts of one registrable domain share credit; a new host is told to the shard."""

from pathlib import Path

import recrawl
from recrawl import Corpus, CorpusConfig
from recrawl.shard.state.tables import GROUP_UNLIMITED
from recrawl.store import Names


def domains(corpus: Corpus) -> dict[str, str]:
    """Return the host that keeps the credit of each host, by name."""
    node = corpus.nodes[0]
    groups = node.shard.tables.groups
    names = node.store.names_of(Names.GROUP, range(node.store.n_names(Names.GROUP)))
    keeper = [int(groups.domain[n]) - 1 if groups.domain[n] else n for n in range(len(names))]
    return {str(name): str(names[keeper[n]]) for n, name in enumerate(names)}


def test_hosts_of_a_domain_share_the_credit_of_the_first(tmp_path: Path) -> None:
    with recrawl.open(tmp_path / "c") as corpus:
        corpus.add(["https://a.example.co.uk/", "https://b.example.co.uk/", "https://other.org/"])
        corpus.add(["https://example.co.uk/", "https://www.other.org/", "https://127.0.0.1/"])
    with recrawl.open(tmp_path / "c") as corpus:
        corpus.add(["https://c.example.co.uk/1", "https://c.example.co.uk/2"])
        assert domains(corpus) == {
            "a.example.co.uk": "a.example.co.uk",
            "b.example.co.uk": "a.example.co.uk",
            "other.org": "other.org",
            "example.co.uk": "a.example.co.uk",
            "www.other.org": "other.org",
            "127.0.0.1": "127.0.0.1",
            "c.example.co.uk": "a.example.co.uk",
        }
        assert corpus.nodes[0].shard.tables.groups.domain_pages[0] == 5


def test_a_host_with_the_name_of_its_domain_keeps_the_credit(tmp_path: Path) -> None:
    with recrawl.open(tmp_path / "c") as corpus:
        corpus.add(["https://a.example.org/", "https://example.org/"])
        assert domains(corpus) == {"a.example.org": "example.org", "example.org": "example.org"}
        # A host may be known from its settings before it has pages.
        corpus.set_host("b.example.org", delay=2)
        assert domains(corpus)["b.example.org"] == "example.org"


def test_groups_that_are_domains_have_credit_of_their_own(tmp_path: Path) -> None:
    with recrawl.open(
        tmp_path / "c", CorpusConfig.from_dict({"corpus": {"group_by": "domain"}})
    ) as corpus:
        corpus.add(["https://a.example.org/", "https://b.example.org/"])
        assert domains(corpus) == {"example.org": "example.org"}


def test_users_lift_the_limit_of_a_host_and_set_it_again(tmp_path: Path) -> None:
    with recrawl.open(tmp_path / "c") as corpus:
        corpus.add(["https://a.example.org/", "https://b.example.org/"])
        flags = corpus.nodes[0].shard.tables.groups.flags
        corpus.set_host("b.example.org", is_unlimited=True)
        assert flags[:2].tolist() == [0, GROUP_UNLIMITED]
        assert domains(corpus)["b.example.org"] == "a.example.org"
        corpus.set_host("b.example.org", delay=3)
        assert flags[1] & GROUP_UNLIMITED
        corpus.set_host("b.example.org", is_unlimited=False)
        assert not flags[1] & GROUP_UNLIMITED
