// Fetch pages for a corpus that `recrawl serve` shares, with Go's standard library alone.
//
//	go run fetch.go http://127.0.0.1:8377/v1/corpora/news [ROUNDS]
//
// The environment variable RECRAWL_KEY is the API key, if the corpus has keys.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

type order struct {
	Handle   string  `json:"handle"`
	FetchURL string  `json:"fetch_url"`
	ETag     *string `json:"etag"`
}

type outcome struct {
	Handle      string `json:"handle"`
	Status      int    `json:"status"` // 0 means no answer
	ETag        string `json:"etag,omitempty"`
	ContentType string `json:"content_type,omitempty"`
	Body        []byte `json:"body_base64,omitempty"` // JSON has bytes in base64
}

var client = &http.Client{Timeout: 90 * time.Second}

// post sends a request until it is answered: a repeated one has no second effect.
func post(url, key string, body, into any) {
	data, _ := json.Marshal(body)
	for {
		request, _ := http.NewRequest("POST", url, bytes.NewReader(data))
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+os.Getenv("RECRAWL_KEY"))
		request.Header.Set("Idempotency-Key", key)
		answer, err := client.Do(request)
		if err == nil {
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil && answer.StatusCode == 200 && json.Unmarshal(text, into) == nil {
				return
			}
			if answer.StatusCode < 500 && answer.StatusCode != 200 && answer.StatusCode != 429 {
				fmt.Fprintln(os.Stderr, string(text))
				os.Exit(1)
			}
		}
		time.Sleep(time.Second)
	}
}

func fetch(one order) outcome {
	found := outcome{Handle: one.Handle}
	request, err := http.NewRequest("GET", one.FetchURL, nil)
	if err != nil {
		return found
	}
	if one.ETag != nil {
		request.Header.Set("If-None-Match", *one.ETag)
	}
	answer, err := client.Do(request)
	if err != nil {
		return found
	}
	defer answer.Body.Close()
	if found.Body, err = io.ReadAll(io.LimitReader(answer.Body, 10<<20)); err != nil {
		return outcome{Handle: one.Handle}
	}
	found.Status, found.ETag = answer.StatusCode, answer.Header.Get("ETag")
	found.ContentType = answer.Header.Get("Content-Type")
	return found
}

func main() {
	rounds := 1 << 62
	if len(os.Args) > 2 {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	for ; rounds > 0; rounds-- {
		id := make([]byte, 16)
		rand.Read(id)
		var leased struct{ Orders []order }
		post(os.Args[1]+"/orders?n=10&wait=30", hex.EncodeToString(id), nil, &leased)
		outcomes := []outcome{}
		for _, one := range leased.Orders {
			outcomes = append(outcomes, fetch(one))
		}
		var answer struct{ Counts map[string]int }
		post(os.Args[1]+"/outcomes", hex.EncodeToString(id), outcomes, &answer)
		fmt.Println(len(outcomes), "pages fetched:", answer.Counts)
	}
}
