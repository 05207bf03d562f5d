package ca

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const userSettings = "# mine\nuser_agent = crawler\nhttps_proxy = http://192.0.2.1:1\nuse_proxy=off\nca_certificate = /theirs\nno_proxy = internal.example"

func TestWgetsSettingsAreTheUsersAndTheBundle(t *testing.T) {
	underRoots(t, testRoots())
	home := filepath.Join(os.Getenv("HOME"), ".wgetrc")
	dir := t.TempDir()
	settings := func() (plain, proxied string) {
		_, bundleFile, err := open(t, dir, Options{}).WriteBundle(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("WGETRC", asMap(t, Env("", "", bundleFile))["WGETRC"])
		return string(slurp(t, os.Getenv("WGETRC"))), string(slurp(t, asMap(t, Env("http://127.0.0.1:1", "", bundleFile))["WGETRC"]))
	}
	added := func(from string) string {
		return "# Added by abide to a copy of " + from + "\nca_certificate = " + filepath.Join(dir, "bundle.pem") + "\n"
	}
	if plain, proxied := settings(); plain != added(home) || proxied != plain {
		t.Errorf("without settings:\n%s\n%s", plain, proxied)
	}
	// WGETRC is abide's from here on, and stands for the user's.
	write(t, home, []byte(userSettings), 0o600)
	for range 2 {
		plain, proxied := settings()
		if plain != userSettings+"\n"+added(home) {
			t.Errorf("with settings:\n%s", plain)
		}
		if strings.Contains(proxied, "https_proxy") || strings.Contains(proxied, "use_proxy") ||
			!strings.Contains(proxied, "user_agent = crawler\nca_certificate = /theirs\nno_proxy = internal.example\n"+added(home)) {
			t.Errorf("with a proxy:\n%s", proxied)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, "wgetrc-proxy")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("settings may have passwords: %v, %v", info.Mode(), err)
	}
	// What was copied stays where the original is gone.
	if err := os.Remove(home); err != nil {
		t.Fatal(err)
	}
	if plain, _ := settings(); !strings.Contains(plain, "user_agent = crawler") {
		t.Errorf("the user's settings are lost:\n%s", plain)
	}
	other := write(t, filepath.Join(t.TempDir(), "rc"), []byte("tries = 1\n"), 0o600)
	t.Setenv("WGETRC", other)
	if plain, _ := settings(); plain != "tries = 1\n"+added(other) {
		t.Errorf("with WGETRC:\n%s", plain)
	}
}

func TestAFileOfSettingsThatIsGoneIsTold(t *testing.T) {
	underRoots(t, testRoots())
	t.Setenv("WGETRC", "/nothing/here")
	b := writeBundle(t, t.TempDir(), Options{})
	if len(b.notices) != 1 || !strings.HasPrefix(b.notices[0], "WGETRC names /nothing/here: wget runs without its settings: no such file") {
		t.Errorf("%q", b.notices)
	}
}

func TestPHPReadsTheBundlesPath(t *testing.T) {
	underRoots(t, testRoots())
	for _, one := range []struct {
		set  bool
		dirs string
		curl bool // Debian's own directory, which has the extension loaded, is read too
	}{{false, "", true}, {true, "", false}, {true, "/nothing/here", false}} {
		t.Setenv("PHP_INI_SCAN_DIR", one.dirs)
		if !one.set {
			os.Unsetenv("PHP_INI_SCAN_DIR")
		}
		dir := filepath.Join(t.TempDir(), `it's $HOME "x" {a};b`)
		_, bundleFile, err := open(t, "", Options{}).WriteBundle(dir)
		if err != nil {
			t.Fatal(err)
		}
		env := Env("", "", bundleFile)
		out, err := run(t, env, "php", "-r", `echo ini_get("openssl.cafile"), "|", ini_get("curl.cainfo");`)
		want := bundleFile + "|"
		if one.curl {
			want += bundleFile
		}
		if err != nil || out != want {
			t.Errorf("%v: %s, not %s", err, out, want)
		}
		t.Setenv("PHP_INI_SCAN_DIR", asMap(t, env)["PHP_INI_SCAN_DIR"])
		if again := asMap(t, Env("", "", bundleFile))["PHP_INI_SCAN_DIR"]; again != os.Getenv("PHP_INI_SCAN_DIR") {
			t.Errorf("it grows: %s", again)
		}
	}
}
