package plan

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

var noon = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// logged is a line of a request that a client began at a time, in seconds after noon.
func logged(client string, began, took float64) string {
	end := noon.Add(time.Duration((began + took) * float64(time.Second)))
	return fmt.Sprintf(`{"msg":"request","time":%q,"client":%q,"method":"GET","url":"https://api.test/items","site":"api.test","status":200,"ms":%d,"wait":0,"attempts":1,"received":500,"sent":100}`,
		end.Format(time.RFC3339Nano), client, int(took*1000))
}

func readLog(t testing.TB, lines ...string) *Log {
	t.Helper()
	log, err := ReadLog(t.Context(), strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func TestALogIsReadWithoutWhatIsNoRequestToASite(t *testing.T) {
	log := readLog(t,
		`{"level":"info","msg":"listening on 127.0.0.1:3128","time":"2026-03-01T11:00:00Z"}`,
		logged("a", 0, 2),
		`{"msg":"request","time":"2026-03-01T12:00:05Z","client":"b","priority":1,"method":"POST","target":"http://other.test:8080","ms":5000,"wait":3,"attempts":2,"status":200}`,
		`{"msg":"request","time":"2026-03-01T12:00:05Z","method":"CONNECT","target":"https://api.test:443","ms":5000}`,
		`{"msg":"request","time":"2026-03-01T12:00:05Z","method":"GET","url":"https://api.test/","ms":5,"attempts":0,"status":429}`,
		"",
		`level=info msg=request`,
		`{"msg":"request","time":"2026-03-01T12:00:05Z","client":"b","method":"GET","url":"https://api`,
	)
	if log.Requests != 2 || log.Left != 2 || log.Other != 1 || log.Unreadable != 2 || log.First == nil || !strings.HasPrefix(log.First.Error(), "line 7 is not JSON") {
		t.Errorf("%+v", log)
	}
	post := log.records[1]
	if post.latency != time.Second || post.priority != 1 || log.methods[post.method] != "POST" || log.places[post.place].target.Port != 8080 || !log.Began.Equal(noon) {
		t.Errorf("%+v", post)
	}
}

func TestALogWithoutRequestsIsAnErrorThatSaysWhy(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "no request to replay",
		"time=now msg=x":      "line 1 is not JSON",
		`{"msg":"listening"}`: "no request to replay",
		`{"msg":"request","time":"2026-03-01T12:00:05Z","method":"CONNECT","target":"https://api.test:443","ms":5000}`: "not sent to any site: 1",
		`{"time":"2026-03-01T12:00:05Z","method":"GET","url":"ftp://api.test/","ms":5}`:                                "line 1 has a url that is none",
		`{"time":"2026-03-01T12:00:05Z","method":"GET","url":"https://api.test/","ms":-5}`:                             "line 1 has ms: -5",
		`{"time":"2026-03-01T12:00:05Z","method":"GET","url":"https://api.test/","ms":5,"priority":9}`:                 "line 1 has priority: 9",
		strings.Repeat("x", longestLine+1): "longer than",
	} {
		if _, err := ReadLog(t.Context(), strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q: %v", text, err)
		}
	}
}

// replayed is how a log goes.
func replayed(t *testing.T, yaml string, keepTimes bool, lines ...string) *Result {
	t.Helper()
	log := readLog(t, lines...)
	return run(t, yaml, Scenario{Start: log.Began, Log: log, KeepTimes: keepTimes})
}

// takes checks how long a log takes.
func takes(t *testing.T, r *Result, seconds float64) {
	t.Helper()
	if !r.Finished || math.Abs(r.Seconds-seconds) > 1e-6 {
		t.Errorf("it takes %v s and not %v: %+v", r.Seconds, seconds, r)
	}
}

const unlimited = "sites: [{host: api.test, limits: [], learn: false}]\n"

func TestACrawlerSendsItsNextRequestAfterItsPause(t *testing.T) {
	// Two of a and one of b at once: a's second crawler has no other request.
	lines := []string{logged("a", 0, 4), logged("a", 1, 2), logged("b", 1, 2), logged("a", 5, 1), logged("b", 13, 1)}
	r := replayed(t, unlimited, false, lines...)
	takes(t, r, 14)
	if r.Recorded != 14 || r.Answered != 5 {
		t.Errorf("%+v", r)
	}
	slow := "sites: [{host: api.test, learn: false, limits: [{requests: 1, per: 10s, as: paced}]}]\n"
	takes(t, replayed(t, slow, false, lines...), 41) // the fifth goes 40 s after the first
	// b's pause of 10 s goes on from the answer, unless times are kept: its requests go at
	// 0 s and after 10 s or more.
	slow = "sites: [{host: api.test, learn: false, limits: [{requests: 1, per: 20s, as: paced, by: client}]}]\n"
	two := []string{logged("b", 0, 2), logged("b", 1, 2), logged("b", 13, 1)}
	takes(t, replayed(t, slow, false, two...), 41)
	takes(t, replayed(t, slow, true, two...), 41)
}

func TestWhoseTimesAreKeptDoesNotWaitForAnswers(t *testing.T) {
	var lines []string
	for i := range 10 {
		lines = append(lines, logged("a", float64(i), .5))
	}
	slow := "sites: [{host: api.test, learn: false, limits: [{requests: 1, per: 10s, as: paced}]}]\n"
	closed, kept := replayed(t, slow, false, lines...), replayed(t, slow, true, lines...)
	takes(t, closed, 90.5)
	takes(t, kept, 90.5)
	// One after the other waits for 9.5 s less its pause; all at once, each for those before.
	if closed.Waits.Longest > 10 || kept.Waits.Longest < 80 {
		t.Errorf("waits of %v s and %v s", closed.Waits.Longest, kept.Waits.Longest)
	}
	fast := "sites: [{host: api.test, learn: false, limits: [{concurrency: 1}]}]\n"
	takes(t, replayed(t, fast, true, lines...), 9.5)
}

func TestALongPauseIsABeginningOfItsOwn(t *testing.T) {
	slow := "sites: [{host: api.test, learn: false, limits: [{requests: 1, per: 15m, as: paced}]}]\n"
	hour := 3600.0
	takes(t, replayed(t, slow, false, logged("a", 0, 1), logged("a", 2, 1), logged("a", hour, 1)), hour+1)
}

// Whatever a log has, crawlers that find no limit repeat it: each request comes when it came.
func TestWithoutLimitsAReplayIsTheLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var lines []string
		ends := 0.0
		for range rapid.IntRange(1, 40).Draw(rt, "requests") {
			began, took := float64(rapid.IntRange(0, 5000).Draw(rt, "began")), float64(rapid.IntRange(0, 100).Draw(rt, "took"))
			lines = append(lines, logged(rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "client"), began, took))
			ends = max(ends, began+took)
		}
		log := readLog(t, lines...)
		followed := 0
		at := map[int32]time.Duration{}
		for i := range log.records {
			r := &log.records[i]
			if r.first {
				at[int32(i)] = r.began
			}
			if at[int32(i)] != r.began {
				rt.Fatalf("request %d comes at %v, and came at %v", i, at[int32(i)], r.began)
			}
			if r.next >= 0 {
				followed++
				next := log.records[r.next]
				at[r.next] = r.began + r.took + next.pause
				if next.client != r.client || next.first || next.pause < 0 || next.pause > longestPause {
					rt.Fatalf("%+v follows %+v", next, r)
				}
			}
		}
		if len(at) != len(lines) {
			rt.Fatalf("%d of %d requests come", len(at), len(lines))
		}
	})
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(logged("a", 0, 1)))
	f.Add([]byte(`{"time":"2026-03-01T12:00:05Z","method":"GET","target":"http://[::1]:80","ms":1e9,"attempts":-1}`))
	f.Add([]byte(`{"msg":"request"`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := readLine(text)
		if err != nil {
			return
		}
		if l.took() < 0 || l.latency() < 0 || l.latency() > l.took() {
			t.Errorf("%v of %v", l.latency(), l.took())
		}
		b := newLogReader()
		if err := b.add(text, nil); errors.Is(err, errOtherLine) {
			t.Error(err)
		}
	})
}
