package units

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/abide-proxy/abide/jobs/output"
	"github.com/abide-proxy/abide/policy/jobfile"
)

// Request is the request of a unit.
type Request struct {
	Method string
	URL    *url.URL
	Header http.Header
	Body   []byte
}

// Fill is the request of a unit, with its placeholders replaced.
func Fill(job *jobfile.Job, u output.Unit) (*Request, error) {
	value, err := values(job, u)
	if err != nil {
		return nil, err
	}
	r := &Request{Method: job.Request.Method, Header: http.Header{}}
	path, query, hasQuery := strings.Cut(job.Request.URL, "?")
	text := jobfile.ReplacePlaceholders(path, func(name, form string) string { return url.PathEscape(value(name, form)) })
	if dotSegments(text) > dotSegments(path) {
		return nil, fmt.Errorf("the unit %s cannot stand in a path, where . and .. mean other directories: put it in the query", u.Key)
	}
	if hasQuery {
		text += "?" + jobfile.ReplacePlaceholders(query, func(name, form string) string { return url.QueryEscape(value(name, form)) })
	}
	if r.URL, err = url.Parse(text); err != nil {
		return nil, fmt.Errorf("the URL of the unit %s cannot be read: %w", u.Key, err)
	}
	for _, h := range job.Request.Headers {
		filled := jobfile.ReplacePlaceholders(h.Value.Reveal(), value)
		if strings.ContainsAny(filled, "\r\n\x00") {
			return nil, fmt.Errorf("the header %s of the unit %s would have a line break", h.Name, u.Key)
		}
		r.Header.Set(h.Name, filled)
	}
	if job.Request.Body != "" {
		isJSON := json.Valid([]byte(jobfile.ReplacePlaceholders(job.Request.Body, func(string, string) string { return "1" })))
		r.Body = []byte(jobfile.ReplacePlaceholders(job.Request.Body, func(name, form string) string {
			if isJSON {
				return inJSON(value(name, form))
			}
			return value(name, form)
		}))
		if isJSON && r.Header.Get("Content-Type") == "" {
			r.Header.Set("Content-Type", "application/json")
		}
	}
	if job.Request.Idempotency && r.Header.Get("Idempotency-Key") == "" {
		r.Header.Set("Idempotency-Key", IdempotencyKey(job, u))
	}
	if r.Header.Get("User-Agent") == "" {
		r.Header.Set("User-Agent", "abide")
	}
	return r, nil
}

// dotSegments counts the parts . and .. of a path, which clients and servers remove.
func dotSegments(path string) (n int) {
	for part := range strings.SplitSeq(path, "/") {
		if part == "." || part == ".." {
			n++
		}
	}
	return n
}

// HTTP is the request as net/http has it, for a URL of the unit: its own, or that of a page.
func (r *Request) HTTP(u *url.URL) (*http.Request, error) {
	var body io.Reader
	if len(r.Body) > 0 {
		body = bytes.NewReader(r.Body)
	}
	sent, err := http.NewRequest(r.Method, u.String(), body)
	if err != nil {
		return nil, err
	}
	sent.Header = r.Header.Clone()
	return sent, nil
}

// inJSON is a text as it stands within a text of JSON.
func inJSON(s string) string {
	text, _ := json.Marshal(s) // texts have no error
	return string(text[1 : len(text)-1])
}

// values are the values of the placeholders of a unit.
func values(job *jobfile.Job, u output.Unit) (func(name, form string) string, error) {
	if job.Range == nil {
		return func(string, string) string { return u.Key }, nil
	}
	form := time.DateOnly
	if job.Range.Step.Unit == "h" {
		form = time.RFC3339
	}
	from, next := step(job.Range, int(u.Place)), step(job.Range, int(u.Place)+1)
	if keyOf(job.Range, from) != u.Key { // the range began elsewhere when the unit was made
		var err error
		if from, err = time.ParseInLocation(form, u.Key, job.Range.Zone); err != nil {
			return nil, fmt.Errorf("the unit %s is no step of the range", u.Key)
		}
		jobRange := *job.Range
		jobRange.From = from
		next = step(&jobRange, 1)
	}
	return func(name, wanted string) string {
		at := from
		if name == "to" {
			at = next
		}
		switch wanted {
		case "":
			return at.Format(form)
		case "unix":
			return strconv.FormatInt(at.Unix(), 10)
		case "unix_ms":
			return strconv.FormatInt(at.UnixMilli(), 10)
		case "rfc3339":
			return at.Format(time.RFC3339)
		}
		return at.Format(wanted)
	}, nil
}

// IdempotencyKey is the same for every attempt of a unit, after a restart too.
func IdempotencyKey(job *jobfile.Job, u output.Unit) string {
	sum := sha256.Sum256([]byte(Fingerprint(job) + "\x00" + job.Name + "\x00" + u.Key))
	return hex.EncodeToString(sum[:16])
}

// Fingerprint hashes what must not change while records are kept: with another request, step or
// time zone the same unit would have other records, and with another id the same record another
// row.
func Fingerprint(job *jobfile.Job) string {
	parts := []any{job.Request.Method, job.Request.URL, job.Request.Body, job.Records, job.ID, job.Collect.Every > 0}
	if r := job.Range; r != nil {
		parts = append(parts, r.Step.String(), r.Zone.String())
		if r.Step.Unit != "h" { // the key of a day or a month does not have the time of day
			parts = append(parts, r.From.Format(time.TimeOnly))
		}
		if r.Step.Unit == "mo" {
			parts = append(parts, r.From.Day())
		}
	}
	text, _ := json.Marshal(parts) // texts have no error
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}
