package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/abide-proxy/abide/internal/shorten"
	"github.com/abide-proxy/abide/limit/learn"
	"github.com/abide-proxy/abide/status"
)

func learnCommand() *cobra.Command {
	var x struct {
		request learn.Request
		time    string
		jsonl   bool
	}
	cmd := &cobra.Command{
		Use:   "learn [FILE]",
		Short: "Say what a response teaches about limits",
		Long: `Learn reads one HTTP response as "curl -i" prints it (status line, headers, an
empty line, the body) and says in words what abide would learn from it. Of
several responses, such as redirects and 100 Continue, it is the last. Without
FILE, or with -, it reads standard input. Nothing is sent anywhere.

What a response means may depend on the host and path that were asked: give
them. Times are counted from --time, else from the response's own Date, else
from now.

With --jsonl the input has one object a line, and so has the output, in the same
order:

  {"id":1,"request":{"method":"GET","host":"api.example.com","path":"/",
   "time_unix":1700000000},"status":429,"headers":[["Retry-After","30"]],
   "body":""}
  {"id":1,"throttled":true,"scope":"token","bucket":null,"limit":null,
   "remaining":null,"reset_at_unix":null,"retry_at_unix":1700000030,
   "window_s":null}

(on one line each). What the response does not say is null; times are Unix
seconds by the local clock. For a line that cannot be read the output has
{"id","error"}, standard error has its number, and the command ends with 2 after
the rest.`,
		Example: `  curl -si https://api.github.com/zen | abide learn --host api.github.com
  abide learn --time 2023-11-14T22:13:20Z --host api.x.com saved.txt
  abide learn --jsonl responses.jsonl`,
		Args: arguments(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := append(args, "-")[0]
			if x.jsonl {
				if err := notFor(cmd, "jsonl", "method", "host", "path", "time"); err != nil {
					return err
				}
				bad, err := eachLine(cmd, path, longestLine, learnLine)
				if bad && err == nil {
					err = &exit{code: exitUsage}
				}
				return err
			}
			now, err := readTime("time", x.time)
			if err != nil {
				return err
			}
			in, name, err := openInput(cmd, path)
			if err != nil {
				return err
			}
			defer in.Close()
			response, err := readResponse(in)
			if err != nil {
				return usage(fmt.Errorf("reading %s: %w", name, err))
			}
			if now.IsZero() {
				now = time.Now()
				if date, err := http.ParseTime(response.headers.Get("Date")); err == nil {
					now = date
				}
			}
			lesson := learn.Read(response.status, response.headers, response.body, x.request, now)
			return describe(cmd.OutOrStdout(), response.status, lesson, now)
		},
	}
	cmd.Flags().StringVar(&x.request.Method, "method", "GET", "the request's `method`")
	cmd.Flags().StringVar(&x.request.Host, "host", "", "the `host` that was asked")
	cmd.Flags().StringVar(&x.request.Path, "path", "/", "the `path` that was asked")
	cmd.Flags().StringVar(&x.time, "time", "", "when the response arrived: a `time` as 2006-01-02T15:04:05Z, or Unix seconds")
	cmd.Flags().BoolVar(&x.jsonl, "jsonl", false, "read and write JSON, one object a line")
	return cmd
}

// readTime is the time that a flag says, or zero.
func readTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	seconds, err := strconv.ParseFloat(text, 64)
	if at, ok := unixTime(seconds); ok && err == nil {
		return at, nil
	}
	return time.Time{}, usage(fmt.Errorf("--%s: %q is neither a time such as 2023-11-14T22:13:20Z nor Unix seconds", flag, text))
}

// unixTime is the time of Unix seconds. It is false for years outside 1970 to 9999.
func unixTime(seconds float64) (time.Time, bool) {
	if !(seconds >= 0 && seconds < 253402300800) {
		return time.Time{}, false
	}
	return time.UnixMicro(int64(seconds*1e6 + 0.5)), true
}

// statusLine matches the begin of another response in the place of a body.
var statusLine = regexp.MustCompile(`^HTTP/\d(\.\d)? [1-9]\d\d`)

// rawResponse is a response as text.
type rawResponse struct {
	status  int
	headers http.Header
	body    []byte // begin of the body
}

// maxBody bounds how many bytes of a body are kept. learn reads fewer.
const maxBody = 16 << 10

// readResponse reads the last of one or several responses.
func readResponse(in io.Reader) (*rawResponse, error) {
	b := bufio.NewReaderSize(in, maxBody)
	for {
		response, err := readHead(textproto.NewReader(b))
		if err != nil {
			return nil, err
		}
		if next, _ := b.Peek(len("HTTP/1.1 200")); statusLine.Match(next) {
			continue // a redirect, a proxy's response or 100 Continue came first
		}
		response.body, err = io.ReadAll(io.LimitReader(b, maxBody))
		if err == nil {
			_, err = io.Copy(io.Discard, b) // the writer of a pipe is not interrupted
		}
		return response, err
	}
}

// readHead reads a status line and headers, up to the empty line.
func readHead(r *textproto.Reader) (*rawResponse, error) {
	text, err := r.ReadLine()
	for err == nil && text == "" {
		text, err = r.ReadLine()
	}
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty; a response begins with a status line, such as HTTP/1.1 200 OK")
	}
	if err != nil {
		return nil, err
	}
	proto, rest, _ := strings.Cut(text, " ")
	number, _, _ := strings.Cut(strings.TrimLeft(rest, " "), " ")
	code, err := strconv.Atoi(number)
	if !strings.HasPrefix(proto, "HTTP/") || err != nil || code < 100 || code > 999 {
		return nil, fmt.Errorf("%q is no status line, such as HTTP/1.1 200 OK", shorten.To(61, text))
	}
	headers, err := r.ReadMIMEHeader()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s; an empty line ends the headers", status.Line(err.Error()))
	}
	return &rawResponse{status: code, headers: http.Header(headers)}, nil
}

// describe prints a lesson as text.
func describe(out io.Writer, status int, l learn.Lesson, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s:\t%s\n", name, fmt.Sprintf(format, args...))
	}
	line("response", "%s", verdict(status, l))
	if l.Scope == learn.None {
		line("teaches", "nothing about limits")
		return w.Flush()
	}
	line("about", "%s", whom(l))
	window := ""
	if l.Window > 0 {
		window = ", each " + l.Window.String()
	}
	line("limit", "%s%s", number(l.Limit, "not said"), window)
	line("remaining", "%s", number(l.Remaining, "not said"))
	line("resets", "%s", when(l.Reset, now, "not said"))
	switch {
	case !l.RetryAt.IsZero():
		line("next request", "%s", when(l.RetryAt, now, ""))
	case l.Permanent:
		line("next request", "not before more was paid for or granted")
	case l.Throttled:
		line("next request", "not said: abide backs off, longer each time")
	default:
		line("next request", "at once")
	}
	if err := w.Flush(); err != nil || len(l.Limits) == 0 {
		return err
	}
	fmt.Fprintln(out, "\nannounced:")
	fmt.Fprintln(w, "  NAME\tLIMIT\tLEFT\tUSED\tWINDOW\tRESETS\tSCOPE\tUNIT")
	for _, one := range l.Limits {
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", said(one.Name != "", "%q", one.Name),
			number(one.Limit, "-"), number(one.Remaining, "-"), number(one.Used, "-"), said(one.Window > 0, "%v", one.Window),
			said(!one.Reset.IsZero(), "in %v", one.Reset.Sub(now)), cmp.Or(one.Scope, l.Scope), cmp.Or(one.Unit, "requests"))
	}
	return w.Flush()
}

// said is a value in a table, "-" for one that the response does not say.
func said(known bool, format string, value any) string {
	if !known {
		return "-"
	}
	return fmt.Sprintf(format, value)
}

func verdict(status int, l learn.Lesson) string {
	switch {
	case !l.Throttled:
		return fmt.Sprintf("%d, no refusal", status)
	case l.Permanent:
		return fmt.Sprintf("%d, a refusal that waiting does not help against", status)
	case l.Lock:
		return fmt.Sprintf("%d, a refusal because another request holds a lock; it says nothing about a rate", status)
	case l.Concurrency:
		return fmt.Sprintf("%d, a refusal because too many requests are in flight", status)
	case l.Overload:
		return fmt.Sprintf("%d, a refusal because the server is overloaded; it says nothing about a rate", status)
	case l.Block:
		return fmt.Sprintf("%d, a refusal that blocks this client for a while", status)
	}
	return fmt.Sprintf("%d, a refusal", status)
}

func whom(l learn.Lesson) string {
	text := ""
	switch {
	case l.Scope == learn.Site:
		return "the whole site, whatever the token"
	case l.Scope == learn.Token:
		text = "this token at this host"
	case l.Bucket != "":
		text = fmt.Sprintf("this token and what the server calls %q", l.Bucket)
	default:
		text = "this token and this method and path"
	}
	if l.Documented != learn.None {
		text += fmt.Sprintf("; the service documents: by %s", l.Documented)
	}
	return text
}

func number(n learn.Amount, unknown string) string {
	if !n.Known {
		return unknown
	}
	return strconv.FormatFloat(n.N, 'f', -1, 64)
}

func when(at, now time.Time, unknown string) string {
	if at.IsZero() {
		return unknown
	}
	return fmt.Sprintf("%s, in %s", at.UTC().Format("2006-01-02 15:04:05.999 UTC"), at.Sub(now))
}
