package policy

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestLimitsReadAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]string{
		"{requests: 5, per: minute}":                      "5 requests per 1m (rolling)",
		"{requests: 5, per: Hour}":                        "5 requests per 1h (rolling)",
		"{requests: 5, per: second}":                      "5 requests per 1s (rolling)",
		"{requests: 5, per: s}":                           "5 requests per 1s (rolling)",
		"{requests: 5, per: 15 minutes}":                  "5 requests per 15m (rolling)",
		"{requests: 5, per: 15min}":                       "5 requests per 15m (rolling)",
		"{requests: 5, per: 1 hour 30 minutes}":           "5 requests per 1h30m (rolling)",
		"{requests: 5, per: 1 day}":                       "5 requests per 1d (rolling)",
		"{requests: 5, per: Day}":                         "5 requests per day (quota, UTC)",
		"5/s":                                             "5 requests per 1s (rolling)",
		"900 per 15m":                                     "900 requests per 15m (rolling)",
		"{requests: 5/s}":                                 "5 requests per 1s (rolling)",
		"{requests: 5 / s}":                               "5 requests per 1s (rolling)",
		"{requests: 5/15m, as: fixed}":                    "5 requests per 15m (fixed)",
		"{requests: 5 per minute}":                        "5 requests per 1m (rolling)",
		"{requests: 5/day, timezone: Europe/Berlin}":      "5 requests per day (quota, Europe/Berlin)",
		"{requests: 1_000/h}":                             "1000 requests per 1h (rolling)",
		"{cost: 100 per 10 s}":                            "100 cost per 10s (rolling)",
		"{bytes: 1mb/m}":                                  "1MB per 1m (fixed)",
		"{bytes: 1 MiB per minute, stall: 2 minutes}":     "1MiB per 1m, stall 2m (fixed)",
		"{bytes: 500 kb, per: 1 min}":                     "500kB per 1m (fixed)",
		"{bytes: 1MB/s, as: bucket, burst: 64 kib}":       "1MB per 1s, 64KiB at once (bucket)",
		"{as: adaptive, min: 12 per minute, max: 2 / s}":  "adaptive between 0.2/s and 2/s",
		"{requests: 10_000, per: month}":                  "10000 requests per month (quota, UTC)",
		"{requests: 5/s, as: bucket, burst: 10, each: 2}": "5 requests per 1s, 10 at once, each request counts 2 (bucket)",
	} {
		for _, one := range []string{"sites: [{host: a.test, limits: [" + text + "]}]", "defaults: {limits: [" + text + "]}"} {
			p := load(t, one)
			all := p.Defaults.Limits
			if len(p.Sites) > 0 {
				all = p.Sites[0].Limits
			}
			if len(all) != 1 || all[0].String() != want {
				t.Errorf("%s is %v, want %q", text, all, want)
			}
		}
	}
	limits, err := ParseLimits([]byte(`{"limits": [{"requests": "5/15m"}, {"bytes": "1mb per hour"}]}`))
	if err != nil || len(limits) != 2 || limits[0].String() != "5 requests per 15m (rolling)" || limits[1].String() != "1MB per 1h (fixed)" {
		t.Errorf("%v, %v", limits, err)
	}
	if p := load(t, "defaults: {limits: 5 per minute}"); len(p.Defaults.Limits) != 1 || p.Defaults.Limits[0].String() != "5 requests per 1m (rolling)" {
		t.Errorf("%v", p.Defaults.Limits)
	}
	for text, want := range map[string]string{
		"{requests: 5/s, per: 1m}":         "limits[0].per: stands behind the amount already; write one of them",
		"{requests: 5/mintue}":             `"mintue" is not a time; did you mean "minute"?`,
		"{requests: 5, per: 15 mintues}":   `"15 mintues" has the unit "mintues"; did you mean "15 minutes"?`,
		"{requests: 5, per: 15M}":          `did you mean "15m"?`,
		"{requests: 5, per: 1 month}":      "write days, such as 30d, or per: month for a quota of the calendar",
		"{requests: 5, per: d}":            "write day for days of the calendar, or 1d for any 24 hours",
		"{requests: 5/days}":               "write day for days of the calendar",
		"{requests: 5/}":                   "has no value",
		"{requests: /s}":                   "has no value; write a whole number",
		"{requests: 0.5/s}":                "is not a whole number",
		"{requests: \"10,000\", per: 1m}":  "write 10000 or 10_000",
		"{requests: 10.000, per: 1m}":      "is not a whole number",
		"{concurrency: 5/s}":               "write requests: 5/s, or concurrency: 5",
		"{bytes: 1M/s}":                    `did you mean "1MB"?`,
		"{bytes: 5/s}":                     `"5" needs a unit, such as 5B`,
		"{as: adaptive, min: 2, max: 3/s}": `"2" is not a rate; did you mean "2/s"?`,
	} {
		refuse(t, "sites: [{host: a.test, limits: ["+text+"]}]", want)
	}
}

func TestSettingsReadAsPeopleWriteThemInEverySource(t *testing.T) {
	text := "queue: {wait: 15 minutes}\nretry: {body: 2 mb}\nbounds: {idle: 1_000}\n"
	for name, src := range map[string]Source{
		"file":        {Path: "abide.yaml", Data: []byte(text)},
		"environment": {Environ: []string{"ABIDE_QUEUE_WAIT=15 Minutes", "ABIDE_RETRY_BODY=2mb", "ABIDE_BOUNDS_IDLE=1_000"}},
		"flags":       {Flags: map[string]string{"queue.wait": "15min", "retry.body": "2 MB", "bounds.idle": "1_000"}},
	} {
		p, err := loadSource(t, src)
		if err != nil || p.Queue.Wait != 15*time.Minute || p.Retry.Body != 2e6 || p.Bounds.Idle != 1000 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAWaitMayBeNothingAndIsNeverNegative(t *testing.T) {
	for text, want := range map[string]time.Duration{"0": 0, "0s": 0, "0 ms": 0, "30s": 30 * time.Second, "2 minutes": 2 * time.Minute} {
		if got, err := ParseWait(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1s", "-0s", "30", "now"} {
		if got, err := ParseWait(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Every spelling of a duration and of a size is the same.
func TestAllSpellingsOfAValueAreOneValue(t *testing.T) {
	respell := func(t *rapid.T, parts []string) string {
		var b strings.Builder
		for i, one := range parts {
			if i > 0 && rapid.Bool().Draw(t, "space") {
				b.WriteByte(' ')
			}
			if name := rapid.IntRange(0, 2).Draw(t, "case"); name == 1 && one != "m" {
				one = strings.ToUpper(one)
			} else if name == 2 {
				one = strings.ToLower(one)
			}
			b.WriteString(one)
		}
		return b.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		var want time.Duration
		var parts []string
		for i, u := range durations {
			if n := rapid.Int64Range(0, 9).Draw(t, "n"); n > 0 {
				name := rapid.SampledFrom(durations[i].names).Draw(t, "unit")
				if name == "m" {
					name = "min"
				}
				parts, want = append(parts, fmt.Sprint(n), name), want+time.Duration(n*u.size)
			}
		}
		if text := respell(t, parts); want > 0 {
			if got, err := ParseDuration(text); err != nil || got != want {
				t.Fatalf("%q is %v, %v, want %v", text, got, err, want)
			}
		}
		u := rapid.SampledFrom(sizes).Draw(t, "unit of size")
		n := rapid.Int64Range(1, 900).Draw(t, "size")
		text := respell(t, []string{fmt.Sprint(n), rapid.SampledFrom(u.names).Draw(t, "name")})
		if got, err := ParseSize(text); err != nil || got != Size(n*u.size) {
			t.Fatalf("%q is %v, %v", text, got, err)
		}
		number := fmt.Sprint(rapid.Int64Range(1, 1e12).Draw(t, "number"))
		if got, err := parseCount(group(number), 1, 1e15); err != nil || fmt.Sprint(got) != number {
			t.Fatalf("%s is %v, %v", group(number), got, err)
		}
	})
}

// What is read is written so that it reads back the same, and nothing panics.
func FuzzValues(f *testing.F) {
	for _, s := range []string{"15m", "1 hour 30 min", "5/s", "5 per 15 minutes", "1mb", "1_000 kB", "0s", "-1s", "day", "M", "1.5GB", "/", "9999999999999999999w", "1_0", "\u0660s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := ParseDuration(s); err == nil {
			if again, err := ParseDuration(formatDuration(d)); d <= 0 || d > longest || err != nil || again.Truncate(time.Nanosecond) != d {
				t.Fatalf("%q is %d, then %d, %v", s, d, again, err)
			}
		}
		if wait, err := ParseWait(s); err == nil && wait < 0 {
			t.Fatalf("%q is a wait of %v", s, wait)
		}
		if size, err := ParseSize(s); err == nil {
			if again, err := ParseSize(size.String()); size <= 0 || err != nil || again != size {
				t.Fatalf("%q is %v, then %v, %v", s, size, again, err)
			}
		}
		if p, err := parsePeriod(s); err == nil {
			if again, err := parsePeriod(p.String()); err != nil || again != p || (p.Calendar == "") != (p.Length > 0) {
				t.Fatalf("%q is %v, then %v, %v", s, p, again, err)
			}
		}
		if r, err := parseRate(s); err == nil && !(r > 0) {
			t.Fatalf("%q is a rate of %v", s, r)
		}
		if n, err := parseCount(s, 1, mostAmount); err == nil && (n < 1 || n > mostAmount) {
			t.Fatalf("%q is %d", s, n)
		}
	})
}
