// A fetcher for `recrawl serve` with nothing but Go's standard library.
// Usage: RECRAWL_KEY=rk_... go run fetcher.go http://127.0.0.1:8377/v1/corpora/news [ROUNDS]
package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

const bodyBytesMax = 5 << 20

type order struct {
	Handle       int64   `json:"handle"`
	FetchURL     string  `json:"fetch_url"`
	ETag         *string `json:"etag"`
	LastModified *string `json:"last_modified"`
}

var pages = http.Client{Timeout: 30 * time.Second}

// call repeats a request that got no answer.  The same Idempotency-Key has no second effect.
func call(path string, body any, found any) {
	data, _ := json.Marshal(body)
	key := fmt.Sprintf("go-%d-%d", os.Getpid(), time.Now().UnixNano())
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		request, err := http.NewRequest("POST", os.Args[1]+path, bytes.NewReader(data))
		if err != nil {
			log.Fatal(err)
		}
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Idempotency-Key", key)
		if secret := os.Getenv("RECRAWL_KEY"); secret != "" {
			request.Header.Set("Authorization", "Bearer "+secret)
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			text, readErr := io.ReadAll(answer.Body)
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK && readErr == nil {
				if err := json.Unmarshal(text, found); err != nil {
					log.Fatal(err)
				}
				return
			}
			if answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests {
				log.Fatalf("%s: %s", answer.Status, text)
			}
		}
		time.Sleep(wait)
	}
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

// fetch returns what became of an order; status 0 means that there was no answer.
func fetch(one order) map[string]any {
	outcome := map[string]any{"handle": one.Handle, "status": 0}
	request, err := http.NewRequest("GET", one.FetchURL, nil)
	if err != nil {
		return outcome
	}
	request.Header.Set("User-Agent", "example-bot/1.0")
	if one.ETag != nil {
		request.Header.Set("If-None-Match", *one.ETag)
	}
	if one.LastModified != nil {
		request.Header.Set("If-Modified-Since", *one.LastModified)
	}
	answer, err := pages.Do(request)
	if err != nil {
		return outcome
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, bodyBytesMax))
	if err != nil {
		return outcome
	}
	outcome["status"] = answer.StatusCode
	if answer.StatusCode == http.StatusOK {
		outcome["body_base64"] = base64.StdEncoding.EncodeToString(body)
		outcome["content_type"] = answer.Header.Get("Content-Type")
	}
	for name, header := range map[string]string{"etag": "ETag", "last_modified": "Last-Modified"} {
		if value := answer.Header.Get(header); value != "" {
			outcome[name] = value
		}
	}
	return outcome
}

func main() {
	rounds := -1 // for ever
	if len(os.Args) > 2 {
		rounds, _ = strconv.Atoi(os.Args[2])
	}
	for ; rounds != 0; rounds-- {
		var leased struct{ Orders []order }
		call("/orders?n=10&wait=10", nil, &leased)
		if len(leased.Orders) == 0 {
			continue
		}
		outcomes := make([]map[string]any, len(leased.Orders))
		var fetching sync.WaitGroup
		for i, one := range leased.Orders {
			fetching.Add(1)
			go func(i int, one order) {
				defer fetching.Done()
				outcomes[i] = fetch(one)
			}(i, one)
		}
		fetching.Wait()
		var reported struct{ Counts map[string]int }
		call("/outcomes", outcomes, &reported)
		fmt.Println(len(outcomes), "pages fetched, of which done:", reported.Counts["done"])
	}
}
