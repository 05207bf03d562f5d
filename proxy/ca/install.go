package ca

import (
	"errors"
	"strings"
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
	words := make([]string, len(s.Run))
	for i, one := range s.Run {
		words[i] = ShellQuoted(one)
	}
	if s.Input != "" {
		words = append(words, "<", ShellQuoted(s.Input))
	}
	if s.MayFail {
		words = append(words, "|| true")
	}
	return strings.Join(words, " ")
}

// anchors are the directories of Linux distributions for added roots, with the command that
// activates them.
var anchors = []struct {
	dir         string
	added, gone []string
}{
	{ // Debian, Alpine
		"/usr/local/share/ca-certificates",
		[]string{"update-ca-certificates"},
		[]string{"update-ca-certificates", "--fresh"},
	},
	{ // Fedora, RHEL
		"/etc/pki/ca-trust/source/anchors",
		[]string{"update-ca-trust", "extract"},
		[]string{"update-ca-trust", "extract"},
	},
	{ // openSUSE
		"/etc/pki/trust/anchors",
		[]string{"update-ca-certificates"},
		[]string{"update-ca-certificates"},
	},
	{ // Arch
		"/etc/ca-certificates/trust-source/anchors",
		[]string{"update-ca-trust"},
		[]string{"update-ca-trust"},
	},
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
	switch goos {
	case "darwin":
		return []Step{{Run: []string{"security", "add-trusted-cert", "-d", "-r", "trustRoot", "-k", keychain, file}}}, nil
	case "windows":
		return []Step{{Run: []string{"certutil", "-addstore", "-f", "ROOT", file}}}, nil
	}
	for _, one := range anchors {
		if has(one.dir) {
			return []Step{{Copy: file, To: one.dir + "/" + anchorName}, {Run: one.added}}, nil
		}
	}
	return nil, errNoStore
}

// Uninstallation reverts Installation. commonName is the root's; file-based systems need
// neither it nor file.
func Uninstallation(goos string, has func(dir string) bool, file, commonName string) ([]Step, error) {
	named := goos == "darwin" || goos == "windows"
	if named && commonName == "" {
		return nil, errNoCA
	}
	switch goos {
	case "darwin":
		return []Step{
			{Run: []string{"security", "remove-trusted-cert", "-d", file}},
			{Run: []string{"security", "delete-certificate", "-c", commonName, keychain}},
		}, nil
	case "windows":
		return []Step{{Run: []string{"certutil", "-delstore", "ROOT", commonName}}}, nil
	}
	for _, one := range anchors {
		if has(one.dir) {
			return []Step{{Remove: one.dir + "/" + anchorName}, {Run: one.gone}}, nil
		}
	}
	return nil, errNoStore
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
