package ca

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

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
