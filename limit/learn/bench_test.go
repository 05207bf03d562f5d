package learn

import (
	"testing"
	"time"
)

var plain = headersOf(
	[2]string{"Date", "Tue, 14 Nov 2023 22:13:20 GMT"}, [2]string{"Content-Type", "text/html; charset=utf-8"},
	[2]string{"Content-Length", "51234"}, [2]string{"Server", "nginx"}, [2]string{"Cache-Control", "max-age=0"},
	[2]string{"Etag", `"abc"`}, [2]string{"Last-Modified", "Tue, 14 Nov 2023 22:13:20 GMT"}, [2]string{"Vary", "Accept-Encoding"},
	[2]string{"X-Frame-Options", "DENY"}, [2]string{"X-Content-Type-Options", "nosniff"}, [2]string{"Strict-Transport-Security", "max-age=63072000"},
	[2]string{"Set-Cookie", "a=b"},
)

var triple = headersOf(
	[2]string{"Date", "Tue, 14 Nov 2023 22:13:20 GMT"}, [2]string{"Content-Type", "application/json"},
	[2]string{"X-Ratelimit-Limit", "5000"}, [2]string{"X-Ratelimit-Remaining", "4987"}, [2]string{"X-Ratelimit-Reset", "1700001800"},
	[2]string{"X-Ratelimit-Used", "13"}, [2]string{"X-Ratelimit-Resource", "core"}, [2]string{"Server", "github.com"},
)

var (
	base = time.Unix(1700000000, 0)
	sink Lesson
)

func BenchmarkReadWithoutRateHeaders(b *testing.B) {
	r := Request{Method: "GET", Host: "www.example.com", Path: "/"}
	b.ReportAllocs()
	for b.Loop() {
		sink = Read(200, plain, nil, r, base)
	}
}

func BenchmarkReadWithoutRateHeadersButABody(b *testing.B) {
	r := Request{Method: "GET", Host: "www.example.com", Path: "/"}
	body := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		sink = Read(200, plain, body, r, base)
	}
}

func BenchmarkReadGitHub(b *testing.B) {
	r := Request{Method: "GET", Host: "api.github.com", Path: "/"}
	b.ReportAllocs()
	for b.Loop() {
		sink = Read(200, triple, nil, r, base)
	}
}

func BenchmarkReadRefusalWithABody(b *testing.B) {
	r := Request{Method: "GET", Host: "www.example.com", Path: "/"}
	body := make([]byte, 4096)
	b.ReportAllocs()
	for b.Loop() {
		sink = Read(429, triple, body, r, base)
	}
}
