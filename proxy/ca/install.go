package ca

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/abide-proxy/abide/internal/lists"
)

// Step is one thing to do to a machine's trust store, or to a browser's: a file to copy, a file to
// remove, or a program to run.
type Step struct {
	Copy, To string
	Remove   string
	Run      []string
	Input    string // file that the program reads, "" for none
	MayFail  bool   // the program fails where there is nothing to do
	Says     string // what is so after the step, "" for nothing to say
}

// String is the step as a shell line.
func (s Step) String() string {
	switch {
	case s.To != "":
		return "install -m 644 " + ShellQuoted(s.Copy) + " " + ShellQuoted(s.To)
	case s.Remove != "":
		return "rm -f " + ShellQuoted(s.Remove)
	}
	words := lists.Map(s.Run, ShellQuoted)
	if s.Input != "" {
		words = append(words, "<", ShellQuoted(s.Input))
	}
	if s.MayFail {
		words = append(words, "|| true")
	}
	return strings.Join(words, " ")
}

// anchors are the directories of Linux distributions for added roots, with the commands that
// activate what was added, and what was removed.
var anchors = []struct{ dir, added, gone string }{
	{"/usr/local/share/ca-certificates", "update-ca-certificates", "update-ca-certificates --fresh"}, // Debian, Alpine
	{"/etc/pki/ca-trust/source/anchors", "update-ca-trust extract", "update-ca-trust extract"},       // Fedora, RHEL
	{"/etc/pki/trust/anchors", "update-ca-certificates", "update-ca-certificates"},                   // openSUSE
	{"/etc/ca-certificates/trust-source/anchors", "update-ca-trust", "update-ca-trust"},              // Arch
}

const (
	anchorName = "abide.crt"
	keychain   = "/Library/Keychains/System.keychain"
)

var (
	errNoStore = errors.New("the trust store of this system is not known to abide: add the output of `abide ca export` to it by its own means")
	errNoCA    = errors.New("there is no CA, so it is not known which one to remove")
)

// Installation returns the steps that make the machine trust the root in file. A root
// installed before is replaced. has tells whether a directory exists.
func Installation(goos string, has func(dir string) bool, file string) ([]Step, error) {
	add, _, err := changes(goos, has, file, "")
	return add, err
}

// Uninstallation reverts Installation. commonName is the root's; file-based systems need
// neither it nor file.
func Uninstallation(goos string, has func(dir string) bool, file, commonName string) ([]Step, error) {
	if commonName == "" && (goos == "darwin" || goos == "windows") {
		return nil, errNoCA
	}
	_, remove, err := changes(goos, has, file, commonName)
	return remove, err
}

// changes returns the steps that add a root to the trust store of the machine, and those that remove it.
func changes(goos string, has func(dir string) bool, file, commonName string) (add, remove []Step, err error) {
	run := func(words ...string) Step { return Step{Run: words} }
	switch goos {
	case "darwin":
		return []Step{run("security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", keychain, file)},
			[]Step{run("security", "remove-trusted-cert", "-d", file), run("security", "delete-certificate", "-c", commonName, keychain)}, nil
	case "windows":
		return []Step{run("certutil", "-addstore", "-f", "ROOT", file)}, []Step{run("certutil", "-delstore", "ROOT", commonName)}, nil
	}
	for _, one := range anchors {
		if at := one.dir + "/" + anchorName; has(one.dir) {
			return []Step{{Copy: file, To: at}, run(strings.Fields(one.added)...)}, []Step{{Remove: at}, run(strings.Fields(one.gone)...)}, nil
		}
	}
	return nil, nil, errNoStore
}

// ShellQuoted is s as one word of a POSIX shell.
func ShellQuoted(s string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// nickname is the name of the root in stores of browsers. A root installed before has the same.
const nickname = "abide"

// CertutilMissing says how to get the program that writes stores of browsers.
const CertutilMissing = "certutil is not installed, and without it Chromium and Firefox do not get the CA: install the package libnss3-tools (Debian, Ubuntu), nss-tools (Fedora, RHEL, Alpine) or nss (Arch), then run this again"

// browserStores are patterns of directories, below a home directory, of which each is a store of
// Chromium and its relatives, or of a profile of Firefox.
var browserStores = []string{
	".pki/nssdb", "snap/*/current/.pki/nssdb", ".var/app/*/.pki/nssdb",
	".mozilla/firefox/*", ".config/mozilla/firefox/*", "snap/firefox/common/.mozilla/firefox/*", ".var/app/org.mozilla.firefox/.mozilla/firefox/*",
}

// ChromiumStore is the directory below home where Chromium, Chrome and the like find certificates.
func ChromiumStore(home string) string { return filepath.Join(home, ".pki", "nssdb") }

// BrowserStores finds the stores of browsers below home: those that exist, and Chromium's if
// Chromium is there. On systems other than Linux browsers use the store of the machine, so there is none.
func BrowserStores(home string) (stores []string, chromium bool) {
	if runtime.GOOS != "linux" {
		return nil, false
	}
	for _, pattern := range browserStores {
		found, _ := fs.Glob(os.DirFS(home), pattern+"/cert9.db")
		for _, file := range found {
			stores = append(stores, filepath.Join(home, filepath.Dir(file)))
		}
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "brave-browser", "microsoft-edge"} {
		_, err := exec.LookPath(name)
		chromium = chromium || err == nil
	}
	for _, downloads := range []string{".cache/ms-playwright", ".cache/puppeteer"} {
		_, err := os.Stat(filepath.Join(home, downloads))
		chromium = chromium || err == nil
	}
	return stores, chromium
}

// TrustInBrowsers returns the steps that make browsers with these stores trust the root in file, or
// with file "" no longer trust one that was installed before. Stores that do not exist are made. before
// are the words of a command that runs another as the user who owns the stores, none for the same user.
func TrustInBrowsers(stores, before []string, file string) (steps []Step) {
	for _, dir := range stores {
		run := func(words ...string) []string { return slices.Concat(before, words) }
		store := "sql:" + dir
		if file == "" {
			steps = append(steps, Step{Run: run("certutil", "-d", store, "-D", "-n", nickname), MayFail: true, Says: "the CA is not in " + dir + " any more"})
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "cert9.db")); err != nil {
			steps = append(steps, Step{Run: run("mkdir", "-p", "-m", "700", dir)}, Step{Run: run("certutil", "-d", store, "-N", "--empty-password")})
		}
		steps = append(
			steps, Step{Run: run("certutil", "-d", store, "-D", "-n", nickname), MayFail: true},
			Step{Run: run("certutil", "-d", store, "-A", "-a", "-n", nickname, "-t", "C,,"), Input: file, Says: "the CA is in " + dir + ": browsers that use it trust the CA from their next start on"},
		)
	}
	return steps
}
