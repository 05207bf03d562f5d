// Command jobs serves an API like GitHub's, for the comparison of loaders in docs/comparison.md:
// repositories, and the issues of each in pages of 100, with since, Link, ETag, and a limit of
// requests that is announced and answered with 429.
//
//	go -C bench run ./jobs 127.0.0.1:8790 &
//	curl 127.0.0.1:8790/stats           # what was sent since the last question
//	curl 127.0.0.1:8790/change?n=100    # n issues change
package main

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"log"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	repos   = 40
	issues  = 250 // of each
	quota   = 50  // requests in a window
	window  = 5 * time.Second
	latency = 50 * time.Millisecond
)

type issue struct {
	ID      int       `json:"id"`
	Number  int       `json:"number"`
	Title   string    `json:"title"`
	State   string    `json:"state"`
	Updated time.Time `json:"updated_at"`
	User    struct {
		Login string `json:"login"`
	} `json:"user"`
}

type server struct {
	mu      sync.Mutex
	issues  map[string][]*issue
	begun   time.Time // of the window
	used    int
	changed int
	stats   map[string]int
}

func main() {
	s := &server{issues: map[string][]*issue{}, stats: map[string]int{}}
	for r := range repos {
		name := fmt.Sprintf("org/repo%02d", r)
		for i := range issues {
			made := &issue{ID: r*10_000 + i, Number: i + 1, Title: fmt.Sprintf("issue %d of %s", i+1, name), State: "open", Updated: time.Date(2025, 1, 1, 0, r, i, 0, time.UTC)}
			made.User.Login = fmt.Sprintf("user%d", i%17)
			s.issues[name] = append(s.issues[name], made)
		}
	}
	http.HandleFunc("/stats", s.tell)
	http.HandleFunc("/count", func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		fmt.Fprintln(w, s.stats["requests"])
	})
	http.HandleFunc("/change", s.change)
	http.HandleFunc("/", s.answer)
	log.Fatal(http.ListenAndServe(os.Args[1], nil))
}

// tell writes what was sent since the last question.
func (s *server) tell(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = json.NewEncoder(w).Encode(s.stats)
	s.stats = map[string]int{}
}

// change has n issues of the first repositories change.
func (s *server) change(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, _ := strconv.Atoi(r.URL.Query().Get("n"))
	for i := range n {
		s.changed++
		changes := s.issues[fmt.Sprintf("org/repo%02d", i%10)][i/10]
		changes.State, changes.Updated = "closed", time.Date(2025, 6, 1, 0, 0, s.changed, 0, time.UTC)
	}
}

func (s *server) answer(w http.ResponseWriter, r *http.Request) {
	select {
	case <-time.After(latency):
	case <-r.Context().Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats["requests"]++
	now := time.Now()
	if now.Sub(s.begun) >= window {
		s.begun, s.used = now, 0
	}
	s.used++
	reset := s.begun.Add(window)
	h := w.Header()
	h.Set("X-RateLimit-Limit", strconv.Itoa(quota))
	h.Set("X-RateLimit-Remaining", strconv.Itoa(max(quota-s.used, 0)))
	h.Set("X-RateLimit-Reset", strconv.FormatInt(reset.Unix()+1, 10))
	if s.used > quota {
		s.stats["429"]++
		h.Set("Retry-After", strconv.Itoa(int(time.Until(reset).Seconds())+1))
		w.WriteHeader(http.StatusTooManyRequests)
		return
	}
	q := r.URL.Query()
	var list []any
	switch name, ofRepo := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/repos/"), "/issues"); {
	case r.URL.Path == "/orgs/org/repos":
		for name := range s.issues {
			list = append(list, map[string]any{"full_name": name, "open_issues": len(s.issues[name])})
		}
		slices.SortFunc(list, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	case ofRepo && s.issues[name] != nil:
		since, _ := time.Parse(time.RFC3339, q.Get("since"))
		chosen := slices.DeleteFunc(slices.Clone(s.issues[name]), func(i *issue) bool { return i.Updated.Before(since) })
		slices.SortFunc(chosen, func(a, b *issue) int { return a.Updated.Compare(b.Updated) })
		for _, found := range chosen {
			list = append(list, found)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	page, _ := strconv.Atoi(q.Get("page"))
	page = max(page, 1)
	if to := page * 100; to < len(list) {
		q.Set("page", strconv.Itoa(page+1))
		h.Set("Link", fmt.Sprintf(`<http://%s%s?%s>; rel="next"`, r.Host, r.URL.Path, q.Encode()))
	}
	list = list[min((page-1)*100, len(list)):min(page*100, len(list))]
	text, _ := json.Marshal(append([]any{}, list...))
	tag := fmt.Sprintf(`"%08x"`, crc32.ChecksumIEEE(text))
	h.Set("ETag", tag)
	s.stats["records"] += len(list)
	if r.Header.Get("If-None-Match") == tag {
		s.stats["304"]++
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}
