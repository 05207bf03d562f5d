package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The signature is that which aws4, a program for Node, makes of the same request.
func TestARequestIsSignedAsForAWS(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
	t.Setenv("AWS_SESSION_TOKEN", "to/ken==")
	at := &url.URL{Scheme: "http", Host: "minio.test:9000", Path: "/lake/a b+c/ü~(x)*.jsonl"}
	r, err := http.NewRequest(http.MethodPut, at.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte("{\"id\":1}\n"))
	signS3(r, "eu-central-1", hex.EncodeToString(sum[:]), time.Date(2026, 1, 31, 10, 11, 12, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260131/eu-central-1/s3/aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token, " +
		"Signature=522827ae2d6b0d2c9a372ffece28f43a0950774ec57db11cc6cc62c125709195"
	if got := r.Header.Get("Authorization"); got != want || r.URL.EscapedPath() != "/lake/a%20b%2Bc/%C3%BC~%28x%29%2A.jsonl" {
		t.Errorf("%s\n%s", r.URL.EscapedPath(), got)
	}
}

func TestAnExportGoesToAnObjectStore(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			_, _ = io.WriteString(w, `[{"id": 1}, {"id": 2}]`)
			return
		}
		body, _ := io.ReadAll(r.Body) // what is missing has another hash
		sum := sha256.Sum256(body)
		if r.URL.Path != "/store/lake/orders.jsonl" || r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) || r.ContentLength != int64(len(body)) ||
			strings.Count(string(body), "\n") != 2 || !strings.Contains(r.Header.Get("Authorization"), "Credential=ops/") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, "<Code>AccessDenied</Code>")
		}
	}))
	defer server.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), resolved(server))
	write(t, filepath.Join(dir, "orders.yaml"), "name: orders\nrequest: http://api.test/\nid: id\n")
	if d := launch(t, dir, nil, "backfill", "orders.yaml"); d.status() != 0 {
		t.Fatal(d.log)
	}
	env := []string{"AWS_ENDPOINT_URL=" + server.URL + "/store/", "AWS_ACCESS_KEY_ID=ops", "AWS_SECRET_ACCESS_KEY=secret"}
	for _, c := range []struct {
		to   string
		env  []string
		says string
	}{
		{"s3://lake/orders.jsonl", env, ""},
		{"s3://lake/other.jsonl", env, "AccessDenied"},
		{"s3://lake/orders.jsonl", nil, "set AWS_ACCESS_KEY_ID"},
		{"s3://lake/", env, "write s3://BUCKET/KEY"},
		{"s3://lake/orders.jsonl", append(env, "AWS_ENDPOINT_URL=minio"), "AWS_ENDPOINT_URL"},
	} {
		d := launch(t, dir, c.env, "export", "orders.yaml", "--to", c.to)
		if failed := d.status() != 0; failed != (c.says != "") || !strings.Contains(d.log.String(), c.says) {
			t.Errorf("%s: %s", c.to, d.log)
		}
	}
}
