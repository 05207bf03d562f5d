package jobstest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy/jobfile"
)

func TestAQuotaIsRefusedUntilItsWindowEnds(t *testing.T) {
	now := time.Unix(0, 0)
	o := New(Options{Style: jobfile.OffsetPages, Records: 5, Size: 2, Quota: 2, Now: func() time.Time { return now }})
	ask := func() *http.Response {
		answer := httptest.NewRecorder()
		o.ServeHTTP(answer, httptest.NewRequest("GET", o.Path("u"), nil))
		return answer.Result()
	}
	for i, want := range []int{200, 200, 429, 429} {
		if answer := ask(); answer.StatusCode != want {
			t.Errorf("request %d is answered with %d", i+1, answer.StatusCode)
		}
		now = now.Add(time.Hour)
	}
	if answer := ask(); answer.StatusCode != 429 || answer.Header.Get("Retry-After") != "72000" || answer.Header.Get("X-RateLimit-Remaining") != "0" {
		t.Errorf("%d, %v", answer.StatusCode, answer.Header)
	}
	now = now.Add(20 * time.Hour)
	if answer := ask(); answer.StatusCode != 200 || o.Refused() != 3 || o.Asked()[Ask{"u", 0}] != 3 || o.Again() != 2 {
		t.Errorf("%d, %d refused, %v, %d again", answer.StatusCode, o.Refused(), o.Asked(), o.Again())
	}
}

func TestAPartOfTheAnswersFailsOrBreaksOff(t *testing.T) {
	o := New(Options{Style: jobfile.CursorPages, Records: 50, Size: 50, Failures: 0.5})
	server := httptest.NewServer(o)
	defer server.Close()
	client := server.Client()
	defer client.CloseIdleConnections()
	results := map[string]int{}
	for range 100 {
		answer, err := client.Get(server.URL + o.Path("u"))
		if err != nil {
			results["broken"]++
			continue
		}
		_, err = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		switch {
		case err != nil:
			results["broken"]++
		case answer.StatusCode != 200:
			results["failed"]++
		default:
			results["served"]++
		}
	}
	if results["broken"] < 10 || results["failed"] < 10 || results["served"] < 25 || o.Served()[Ask{"u", 0}] != results["served"] {
		t.Errorf("%v, %v", results, o.Served())
	}
}
