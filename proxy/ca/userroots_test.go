package ca

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// userCA is the PEM text of a CA that is not abide's.
func userCA(t *testing.T) []byte { return open(t, "", Options{}).PEM() }

// bundled are what WriteBundle writes into a directory.
type bundled struct {
	all, extra []*x509.Certificate
	env        map[string]string
	notices    []string
}

func (b bundled) has(t *testing.T, root []byte) (all, extra bool) {
	t.Helper()
	certificate := certificates(t, root)[0]
	return slices.ContainsFunc(b.all, certificate.Equal), slices.ContainsFunc(b.extra, certificate.Equal)
}

func writeBundle(t *testing.T, dir string, o Options) bundled {
	t.Helper()
	var b bundled
	o.Notice = func(text string) { b.notices = append(b.notices, text) }
	extraFile, bundleFile, err := open(t, dir, o).WriteBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	b.all, b.extra = certificates(t, slurp(t, bundleFile)), certificates(t, slurp(t, extraFile))
	b.env = asMap(t, Env("", extraFile, bundleFile))
	return b
}

func slurp(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestABundleHasWhatTheUserTrusts(t *testing.T) {
	underRoots(t, testRoots())
	dir := t.TempDir()
	named := map[string][]byte{}
	for _, name := range []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE", "GIT_SSL_CAINFO"} {
		named[name] = userCA(t)
		t.Setenv(name, write(t, filepath.Join(dir, name), named[name], 0o644))
	}
	// requests takes a directory, too.
	named["a directory"] = userCA(t)
	if err := os.Mkdir(filepath.Join(dir, "hashed"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "hashed", "0a1b2c3d.0"), named["a directory"], 0o644)
	t.Setenv("PIP_CERT", filepath.Join(dir, "hashed"))
	named["egress.roots"] = userCA(t)
	roots := write(t, filepath.Join(dir, "roots"), named["egress.roots"], 0o644)
	named["wgetrc"] = userCA(t)
	write(t, filepath.Join(os.Getenv("HOME"), ".wgetrc"),
		[]byte("CA-Certificate = "+write(t, filepath.Join(dir, "wget"), named["wgetrc"], 0o644)+" \n"), 0o600)

	b := writeBundle(t, t.TempDir(), Options{Roots: roots})
	for name, root := range named {
		if all, extra := b.has(t, root); !all || !extra {
			t.Errorf("%s: in the bundle %v, in the file of additions %v", name, all, extra)
		}
	}
	// The roots of testRoots, which stand for the system's, are added to nothing
	// that SSL_CERT_FILE names beside SSL_CERT_DIR.
	if len(b.all) != len(named)+2 || len(b.notices) > 0 {
		t.Errorf("the bundle has %d certificates; %q", len(b.all), b.notices)
	}
}

func TestTheSystemsRootsAreNotAdditions(t *testing.T) {
	withoutUserRoots(t)
	rootPEM := userCA(t)
	system, err := systemRoots()
	if err != nil {
		t.Fatal(err)
	}
	// As a file that somebody made for requests: everything.
	t.Setenv("REQUESTS_CA_BUNDLE", write(t, filepath.Join(t.TempDir(), "all.pem"), append(system, rootPEM...), 0o644))
	b := writeBundle(t, t.TempDir(), Options{})
	if all, extra := b.has(t, rootPEM); !all || !extra || len(b.all) < 20 || len(b.extra) != 2 {
		t.Errorf("%v %v, %d in all, %d additions", all, extra, len(b.all), len(b.extra))
	}
	// Both variables may name what the system has anyway.
	t.Setenv("REQUESTS_CA_BUNDLE", "")
	t.Setenv("SSL_CERT_DIR", t.TempDir())
	t.Setenv("SSL_CERT_FILE", write(t, filepath.Join(t.TempDir(), "system.pem"), system, 0o644))
	if again := writeBundle(t, t.TempDir(), Options{}); len(again.all) != len(b.all)-1 || len(again.extra) != 1 {
		t.Errorf("%d in all, %d additions", len(again.all), len(again.extra))
	}
	t.Setenv("SSL_CERT_DIR", "")
	// OpenSSL and Go read SSL_CERT_FILE beside the system's directory.
	t.Setenv("SSL_CERT_FILE", write(t, filepath.Join(t.TempDir(), "own.pem"), rootPEM, 0o644))
	if again := writeBundle(t, t.TempDir(), Options{}); len(again.all) != len(b.all) || len(again.extra) != 2 {
		t.Errorf("%d in all, %d additions", len(again.all), len(again.extra))
	}
}

func TestAFileOfRootsThatCannotBeUsedIsTold(t *testing.T) {
	underRoots(t, testRoots())
	dir := t.TempDir()
	gone, text := filepath.Join(dir, "gone.pem"), write(t, filepath.Join(dir, "text"), []byte("no certificate"), 0o644)
	for _, name := range []string{"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "AWS_CA_BUNDLE"} {
		t.Setenv(name, gone)
	}
	t.Setenv("NODE_EXTRA_CA_CERTS", text)
	t.Setenv("PIP_CERT", "/dev/zero")
	b := writeBundle(t, t.TempDir(), Options{Roots: filepath.Join(dir, "roots")})
	if len(b.notices) != 4 || len(b.all) != 2 {
		t.Fatalf("%d certificates, %q", len(b.all), b.notices)
	}
	for i, want := range []string{
		"NODE_EXTRA_CA_CERTS names " + text + ", but clients will not trust the certificates there: the file has no certificate in PEM",
		"REQUESTS_CA_BUNDLE, CURL_CA_BUNDLE and 1 more name " + gone,
		"PIP_CERT names /dev/zero, but clients will not trust the certificates there: it is not a regular file",
		"egress.roots names " + filepath.Join(dir, "roots"),
	} {
		if !strings.HasPrefix(b.notices[i], want) {
			t.Errorf("notice %d: %s", i, b.notices[i])
		}
	}
}

// As a shell that was set up before does.
func TestABundleOfABundleIsTheSame(t *testing.T) {
	withoutUserRoots(t)
	rootPEM := userCA(t)
	t.Setenv("NODE_EXTRA_CA_CERTS", write(t, filepath.Join(t.TempDir(), "own.pem"), rootPEM, 0o644))
	dir := t.TempDir()
	first := writeBundle(t, dir, Options{Names: []string{"api.test"}})
	for key, value := range first.env {
		t.Setenv(key, value)
	}
	// The root is another one now, of the same key.
	again := writeBundle(t, dir, Options{Names: []string{"api.test", "other.test"}})
	if all, extra := again.has(t, rootPEM); !all || !extra || len(again.all) != len(first.all) || len(again.extra) != 2 {
		t.Errorf("%v %v, %d of %d in all, %d additions", all, extra, len(again.all), len(first.all), len(again.extra))
	}
	for key, value := range first.env {
		if again.env[key] != value {
			t.Errorf("%s became %s", key, again.env[key])
		}
	}
	// A command that abide runs in that shell.
	other := writeBundle(t, t.TempDir(), Options{})
	if all, extra := other.has(t, rootPEM); !all || !extra {
		t.Error("the user's CA is lost in a bundle elsewhere")
	}
	// The files are gone: nobody has to hear of them before they are there again.
	for _, name := range []string{"bundle.pem", "extra.pem", "wgetrc"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if b := writeBundle(t, dir, Options{}); len(b.notices) > 1 { // that there is a new root
		t.Errorf("%q", b.notices)
	}
}

func TestBundlesAreWrittenAgainWithARenewedRoot(t *testing.T) {
	withoutUserRoots(t)
	rootPEM := userCA(t)
	named := write(t, filepath.Join(t.TempDir(), "own.pem"), rootPEM, 0o644)
	t.Setenv("REQUESTS_CA_BUNDLE", named)
	kept, run := t.TempDir(), t.TempDir()
	writeBundle(t, kept, Options{Names: []string{"api.test"}}) // another process
	// One that was started without the user's files.
	t.Setenv("REQUESTS_CA_BUNDLE", "")
	c := open(t, kept, Options{Names: []string{"api.test"}})
	if _, _, err := c.WriteBundle(run); err != nil {
		t.Fatal(err)
	}
	old := rootOf(t, c)
	if err := c.SetNames([]string{"other.test"}); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{kept, run} {
		for _, name := range []string{"bundle.pem", "extra.pem"} {
			all := certificates(t, slurp(t, filepath.Join(dir, name)))
			if !all[0].Equal(rootOf(t, c)) || slices.ContainsFunc(all, old.Equal) {
				t.Errorf("%s in %s has another root", name, dir)
			}
			theirs := slices.ContainsFunc(all, certificates(t, rootPEM)[0].Equal)
			if theirs != (dir == kept) {
				t.Errorf("%s in %s has the user's CA: %v", name, dir, theirs)
			}
		}
		// The Java store is written from the same certificates.
		if !strings.Contains(string(slurp(t, filepath.Join(dir, "bundle.jks"))), string(rootOf(t, c).Raw)) {
			t.Errorf("bundle.jks in %s has another root", dir)
		}
	}
}

func TestNothingIsWrittenForARenewedRootWhereNothingWas(t *testing.T) {
	underRoots(t, testRoots())
	dir := t.TempDir()
	var notices []string
	c := open(t, dir, Options{Names: []string{"api.test"}, Notice: func(text string) { notices = append(notices, text) }})
	gone := filepath.Join(t.TempDir(), "run")
	if _, _, err := c.WriteBundle(gone); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(gone); err != nil {
		t.Fatal(err)
	}
	if err := c.SetNames([]string{"other.test"}); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(gone)
	if _, there := os.Stat(filepath.Join(dir, "bundle.pem")); err == nil || there == nil || len(notices) != 1 {
		t.Errorf("%v %v %q", err, there, notices)
	}
}

func TestTheUsersRootsAreNotOurs(t *testing.T) {
	underRoots(t, testRoots())
	rootPEM := userCA(t)
	t.Setenv("REQUESTS_CA_BUNDLE", write(t, filepath.Join(t.TempDir(), "own.pem"), rootPEM, 0o644))
	dir := t.TempDir()
	for key, value := range writeBundle(t, dir, Options{Names: []string{"api.test"}}).env {
		t.Setenv(key, value)
	}
	// This CA has another root of the same key since.
	open(t, dir, Options{})
	all := certificates(t, UserRoots(dir))
	if len(all) != 2 || !slices.ContainsFunc(all, certificates(t, rootPEM)[0].Equal) || !slices.ContainsFunc(all, certificates(t, testRoots())[0].Equal) {
		t.Errorf("%d certificates", len(all))
	}
	withoutUserRoots(t)
	if text := UserRoots(dir); len(text) != 0 {
		t.Errorf("nothing is named:\n%s", text)
	}
}
