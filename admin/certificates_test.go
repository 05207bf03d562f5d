package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/proxy/ca"
)

func TestABundleIsServedWithTheCertificateFirst(t *testing.T) {
	b := newBed(t, withToken)
	root, bundle, store := b.get("/ca.pem"), b.get("/bundle.pem"), b.get("/bundle.jks")
	if bundle.StatusCode != 200 || !strings.HasPrefix(bundle.body, root.body) || strings.Count(bundle.body, "BEGIN CERTIFICATE") < 10 {
		t.Errorf("the bundle: %d, %d bytes", bundle.StatusCode, len(bundle.body))
	}
	if kind := bundle.Header.Get("Content-Type"); kind != "application/x-pem-file" {
		t.Errorf("its type is %s", kind)
	}
	if store.StatusCode != 200 || !strings.HasPrefix(store.body, "\xfe\xed\xfe\xed") {
		t.Errorf("the key store: %d", store.StatusCode)
	}
	for _, one := range []response{root, bundle, store} {
		if strings.Contains(one.body, "PRIVATE") {
			t.Error("a key is served")
		}
	}
}

func TestABundleIsMadeOnceAMinuteAndForEachCertificate(t *testing.T) {
	authority, err := ca.Open("", ca.Options{Names: []string{"a.test"}})
	if err != nil {
		t.Fatal(err)
	}
	now, made := time.Now(), 0
	c := &certificates{ca: authority, clock: func() time.Time { return now }}
	bundle := c.bundle("pem", "text/plain", func(*ca.CA) ([]byte, error) { made++; return nil, nil })
	want := func(what string, times int) {
		t.Helper()
		for range 3 {
			w := httptest.NewRecorder()
			if bundle.ServeHTTP(w, nil); w.Code != http.StatusOK {
				t.Fatal(w.Body)
			}
		}
		if made != times {
			t.Errorf("%s it was made %d times, not %d", what, made, times)
		}
	}
	want("at first", 1)
	now = now.Add(bundleLife)
	want("after a minute", 2)
	if err := authority.SetNames([]string{"b.test"}); err != nil {
		t.Fatal(err)
	}
	want("for another certificate", 3)
}

func TestABundleThatCannotBeMadeSaysWhatThereIsInstead(t *testing.T) {
	authority, err := ca.Open("", ca.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := &certificates{ca: authority, clock: time.Now}
	const cause = "open /etc/ssl/certs/ca-certificates.crt: permission denied"
	for _, format := range []string{"pem", "jks"} {
		w := httptest.NewRecorder()
		c.bundle(format, "text/plain", func(*ca.CA) ([]byte, error) { return nil, errors.New(cause) }).ServeHTTP(w, nil)
		if body := w.Body.String(); w.Code != http.StatusServiceUnavailable || !strings.Contains(body, "/ca.pem") || strings.Contains(body, cause) {
			t.Errorf("%s: %d %s", format, w.Code, body)
		}
	}
}
