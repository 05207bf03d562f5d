package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/abide-proxy/abide/limit/learn"
)

// responseLine is one line of input.
type responseLine struct {
	ID      json.RawMessage `json:"id"`
	Request struct {
		Method string   `json:"method"`
		Host   string   `json:"host"`
		Path   string   `json:"path"`
		Time   *float64 `json:"time_unix"`
	} `json:"request"`
	Status  int        `json:"status"`
	Headers [][]string `json:"headers"`
	Body    string     `json:"body"`
}

// lessonLine is one line of output.
type lessonLine struct {
	ID        json.RawMessage `json:"id"`
	Throttled bool            `json:"throttled"`
	Scope     string          `json:"scope"`
	Bucket    *string         `json:"bucket"`
	Limit     *float64        `json:"limit"`
	Remaining *float64        `json:"remaining"`
	Reset     json.RawMessage `json:"reset_at_unix"`
	Retry     json.RawMessage `json:"retry_at_unix"`
	Window    *float64        `json:"window_s"`
}

// longestLine is the length of the longest line of input, in bytes.
const longestLine = 16 << 20

// learnLine answers one line. If that fails, the answer has the reason. Brackets and commas of an array of many lines
// are left out.
func learnLine(text []byte, fault error) (answer []byte, _ error) {
	text = bytes.TrimSuffix(bytes.TrimSpace(text), []byte(","))
	if fault == nil && (len(text) == 0 || string(text) == "[" || string(text) == "]") {
		return nil, nil
	}
	var line responseLine
	if fault == nil {
		fault = json.Unmarshal(text, &line)
	}
	if fault == nil {
		answer, fault = line.answer()
	}
	if fault != nil {
		answer, _ = json.Marshal(struct { // the ID was read, so it is JSON
			ID    json.RawMessage `json:"id"`
			Error string          `json:"error"`
		}{line.ID, fault.Error()})
	}
	return append(answer, '\n'), fault
}

func (line *responseLine) answer() ([]byte, error) {
	if line.Status < 100 || line.Status > 999 {
		return nil, fmt.Errorf("status: %d is none", line.Status)
	}
	now := time.Now()
	if line.Request.Time != nil {
		at, ok := unixTime(*line.Request.Time)
		if !ok {
			return nil, fmt.Errorf("request.time_unix: %v is not between the years 1970 and 9999", *line.Request.Time)
		}
		now = at
	}
	request := learn.Request{Method: line.Request.Method, Host: line.Request.Host, Path: line.Request.Path}
	headers := http.Header{}
	for n, pair := range line.Headers {
		if len(pair) != 2 {
			return nil, fmt.Errorf("headers[%d]: has %d strings, not a name and a value", n, len(pair))
		}
		headers.Add(pair[0], pair[1])
	}
	l := learn.Read(line.Status, headers, []byte(line.Body), request, now)
	return json.Marshal(lessonLine{
		ID: line.ID, Throttled: l.Throttled, Scope: l.Scope.String(), Bucket: orNull(l.Bucket != "", l.Bucket),
		Limit: orNull(l.Limit.Known, l.Limit.N), Remaining: orNull(l.Remaining.Known, l.Remaining.N),
		Reset: seconds(l.Reset), Retry: seconds(l.RetryAt), Window: orNull(l.Window > 0, l.Window.Seconds()),
	})
}

// orNull returns a value, or nil, which JSON has as null, where it is not known.
func orNull[T any](known bool, value T) *T {
	if !known {
		return nil
	}
	return &value
}

// seconds is a time as Unix seconds, to the nanosecond; nil, which JSON has as null, for none.
func seconds(at time.Time) json.RawMessage {
	if at.IsZero() {
		return nil
	}
	text := strconv.AppendInt(nil, at.Unix(), 10)
	if nanos := at.Nanosecond(); nanos > 0 {
		text = append(text, bytes.TrimRight(fmt.Appendf(nil, ".%09d", nanos), "0")...)
	}
	return text
}
