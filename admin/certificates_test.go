package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/ca"
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
	c := &certificates{ca: authority, made: map[string]madeBundle{}, clock: func() time.Time { return now }}
	want := func(what string, times int) {
		t.Helper()
		for range 3 {
			if _, err := c.encoded("pem", func(*ca.CA) ([]byte, error) { made++; return nil, nil }); err != nil {
				t.Fatal(err)
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

func TestWithoutSystemCertificatesTheBundleSaysWhatThereIs(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(missing, []byte("none"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", missing)
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	b := newBed(t, nil)
	for _, path := range []string{"/bundle.pem", "/bundle.jks"} {
		if r := b.get(path); r.StatusCode != 503 || !strings.Contains(r.body, "/ca.pem") || strings.Contains(r.body, missing) {
			t.Errorf("%s: %d %s", path, r.StatusCode, r.body)
		}
	}
}
