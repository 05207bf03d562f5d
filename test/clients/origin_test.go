package clients

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// The names that the origin has. They are none of this machine's own, which
// clients would reach without a proxy, and none resolves to it but in abide.
const (
	apiHost     = "api.test"
	twitterHost = "api.twitter.com"

	oldPrefix = "old." // of names under which it has no HTTP/2
)

// seen is a request as it reached the origin.
type seen struct {
	Scheme, Method, Host, URI string
	Body                      string // its SHA-256
	Proto                     string
	Header                    http.Header
}

// origin is a site that speaks plain HTTP, and TLS with HTTP/1.1 and HTTP/2.
type origin struct {
	plain, secure string           // addresses
	answers       http.HandlerFunc // instead of its own; nil for those

	mu   sync.Mutex
	seen []seen
}

func startOrigin(t *testing.T) *origin { return startOriginThat(t, nil) }

// startOriginThat is an origin with other answers.
func startOriginThat(t *testing.T, answers http.HandlerFunc) *origin {
	t.Helper()
	o := &origin{answers: answers}
	quiet := log.New(io.Discard, "", 0) // h2spec makes it say much
	site := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute, ErrorLog: quiet}
	secureSite := &http.Server{Handler: o, ReadHeaderTimeout: time.Minute, ErrorLog: quiet, TLSConfig: &tls.Config{
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			// Addresses are not named in a handshake.
			config, err := originCA.TLSConfig(cmp.Or(hello.ServerName, loopback))
			if err != nil {
				return nil, err
			}
			config = config.Clone()
			// As nginx has it: curl --http1.0 offers nothing else.
			config.NextProtos = []string{"h2", "http/1.1", "http/1.0"}
			if strings.HasPrefix(hello.ServerName, oldPrefix) {
				config.NextProtos = []string{"http/1.1"}
			}
			return config, nil
		},
	}}
	plain, secure := listen(t), listen(t)
	o.plain, o.secure = plain.Addr().String(), secure.Addr().String()
	var serving sync.WaitGroup
	serve := func(serve func() error) {
		if err := serve(); !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("the origin stopped: %v", err)
		}
	}
	serving.Go(func() { serve(func() error { return site.Serve(plain) }) })
	serving.Go(func() { serve(func() error { return secureSite.ServeTLS(secure, "", "") }) })
	t.Cleanup(func() {
		site.Close()
		secureSite.Close()
		serving.Wait()
	})
	return o
}

// loopback is where everything listens. Linux has many addresses of its own:
// there it is one that other packages' tests, which run at the same time, cannot
// take the last port of.
var loopback = func() string {
	if runtime.GOOS == "linux" {
		return "127.0.67.1"
	}
	return "127.0.0.1"
}()

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// requests are those that reached the origin so far.
func (o *origin) requests() []seen {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]seen(nil), o.seen...)
}

func (o *origin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client's end, not a request
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	o.mu.Lock()
	o.seen = append(o.seen, seen{
		Scheme: scheme, Method: r.Method, Host: r.Host, URI: r.RequestURI,
		Body: sum(body), Proto: r.Proto, Header: r.Header.Clone(),
	})
	o.mu.Unlock()
	if o.answers != nil {
		r.Body = io.NopCloser(bytes.NewReader(body))
		o.answers(w, r)
		return
	}

	text := answerTo(r.Method, r.RequestURI, string(body))
	switch r.URL.Path {
	case "/big":
		w.Header().Set("Content-Type", "application/octet-stream")
		text = bigAnswer
	case "/gzip":
		w.Header().Set("Content-Type", "text/plain")
		if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			text = zippedAnswer
		}
	case "/redirect":
		http.Redirect(w, r, scheme+"://"+r.Host+"/landed", http.StatusFound)
		return
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if tweet, ok := tweets[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			text = tweet
		}
	}
	_, _ = io.WriteString(w, text) // the client may have left
}

// answerTo is what the origin says to a request for anything.
func answerTo(method, uri, body string) string {
	return fmt.Sprintf("%s %s\n%s\n", method, uri, body)
}

// tweets are the answers of the API that Tweepy calls: path → JSON.
var tweets = map[string]string{
	"/2/users/by/username/abide": `{"data":{"id":"42","name":"Abide","username":"abide"}}`,
	"/2/tweets":                  `{"data":{"id":"7","text":"hello"}}`,
	"/1.1/statuses/show.json":    `{"id":20,"id_str":"20","text":"just-setting-up"}`,
}

var (
	bigAnswer    = noise(1 << 20)
	gzipAnswer   = strings.Repeat("to wait, and to act in accordance with a rule\n", 1000)
	zippedAnswer = zipped(gzipAnswer)
)

// noise is n bytes that do not compress and are the same every time.
func noise(n int) string {
	var b bytes.Buffer
	last := sha256.Sum256(nil)
	for b.Len() < n {
		last = sha256.Sum256(last[:])
		b.Write(last[:])
	}
	return b.String()[:n]
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	// A Buffer takes everything.
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	return b.String()
}

func sum[T string | []byte](data T) string {
	digest := sha256.Sum256([]byte(data))
	return hex.EncodeToString(digest[:])
}
