package upstream

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// plainOrigin answers every request with the same bytes, at hardly any cost.
func plainOrigin(tb testing.TB, length int, config *tls.Config) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	answer := fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nDate: Sat, 21 Nov 2026 10:00:00 GMT\r\n"+
		"Server: origin\r\nCache-Control: max-age=60\r\nContent-Length: %d\r\n\r\n%s", length, strings.Repeat("x", length))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				br := bufio.NewReader(c)
				for {
					for line := ""; line != "\r\n"; {
						b, err := br.ReadSlice('\n')
						if err != nil {
							return
						}
						line = string(b)
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	tb.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func dialPlainly(ctx context.Context, host string, port uint16) (net.Conn, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", net.JoinHostPort(host, fmt.Sprint(port)))
	if err != nil {
		return nil, err
	}
	return newMeteredConn(nc, meterFrom(ctx)), nil
}

func benchmarkGets(b *testing.B, rt http.RoundTripper, url string) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		buf := make([]byte, 32<<10)
		for pb.Next() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
			if err != nil {
				b.Error(err)
				return
			}
			req.Header["User-Agent"] = []string{"bench"}
			req.Header["Accept"] = []string{"*/*"}
			resp, err := rt.RoundTrip(req)
			if err != nil {
				b.Error(err)
				return
			}
			for err == nil {
				_, err = resp.Body.Read(buf)
			}
			if err != io.EOF {
				b.Error(err)
			}
			resp.Body.Close()
		}
	})
}

func BenchmarkGet(b *testing.B) {
	server, client := certified(b)
	for _, size := range []int{1 << 10, 64 << 10} {
		for _, secure := range []bool{false, true} {
			scheme := "http"
			var config *tls.Config
			if secure {
				scheme = "https"
				config = server
			}
			url := scheme + "://" + plainOrigin(b, size, config) + "/path"
			ours := &Transport{
				Dial: dialPlainly, TLS: client,
				AnswerTimeout: time.Minute, StallTimeout: time.Minute, IdleTimeout: time.Minute, MaxIdlePerHost: 100,
			}
			std := &http.Transport{
				TLSClientConfig: client.Clone(), DisableCompression: true,
				ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute, MaxIdleConnsPerHost: 100,
			}
			name := fmt.Sprintf("%s/%dKiB", scheme, size>>10)
			b.Run(name+"/abide", func(b *testing.B) { benchmarkGets(b, ours, url) })
			b.Run(name+"/net-http", func(b *testing.B) { benchmarkGets(b, std, url) })
			ours.Close()
			std.CloseIdleConnections()
		}
	}
}

func BenchmarkGetHTTP2(b *testing.B) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Write(make([]byte, 1<<10))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client().Transport.(*http.Transport).TLSClientConfig
	ours := &Transport{Dial: dialPlainly, TLS: client, AnswerTimeout: time.Minute, StallTimeout: time.Minute, IdleTimeout: time.Minute}
	defer ours.Close()
	std := &http.Transport{
		TLSClientConfig: client.Clone(), ForceAttemptHTTP2: true, DisableCompression: true,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute,
	}
	defer std.CloseIdleConnections()
	b.Run("abide", func(b *testing.B) { benchmarkGets(b, ours, server.URL) })
	b.Run("net-http", func(b *testing.B) { benchmarkGets(b, std, server.URL) })
}
