package ca

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// openForParent is what a child process of a test does.
func openForParent(dir string) {
	c, err := Open(dir, Options{Names: []string{"api.test"}})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Print(c.Fingerprint())
}

func TestTheFirstRunMakesACAThatLaterRunsUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "abide", "ca")
	if _, err := os.Stat(RootFile(dir)); err == nil {
		t.Error("it exists before")
	}
	first := open(t, dir, Options{})
	if _, err := os.Stat(RootFile(dir)); err != nil {
		t.Error("it does not exist after")
	}
	second := open(t, dir, Options{Notice: func(text string) { t.Error(text) }})
	if first.Fingerprint() != second.Fingerprint() || !bytes.Equal(first.PEM(), second.PEM()) {
		t.Error("the second run has another CA")
	}
	if _, err := leafOf(t, second, "api.test").Verify(x509.VerifyOptions{Roots: pool(first)}); err != nil {
		t.Error(err)
	}
}

func TestTheKeyIsForItsOwnerAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	c := open(t, dir, Options{})
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "ca-key.pem"): 0o600, c.File(): 0o644} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", filepath.Base(path), info.Mode().Perm())
		}
	}
	if bytes.Contains(c.PEM(), []byte("PRIVATE")) {
		t.Error("the certificate comes with the key")
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 2 {
		t.Errorf("the directory holds %v, %v", left, err)
	}
}

func TestAKeyThatOthersCanUseIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o640, 0o604, 0o660, 0o644, 0o620} {
		dir := filepath.Join(t.TempDir(), "ca")
		open(t, dir, Options{})
		if err := os.Chmod(filepath.Join(dir, "ca-key.pem"), mode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(dir, Options{})
		if err == nil || !strings.Contains(err.Error(), "chmod 600") {
			t.Errorf("mode %04o: %v", mode, err)
		}
	}
}

func TestADirectoryThatOthersCanWriteToIsRefused(t *testing.T) {
	for _, mode := range []os.FileMode{0o770, 0o702, 0o777} {
		dir := filepath.Join(t.TempDir(), "ca")
		open(t, dir, Options{})
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "chmod 700") {
			t.Errorf("mode %04o: %v", mode, err)
		}
		if err := os.Chmod(dir, mode|os.ModeSetgid); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "fsGroupChangePolicy: OnRootMismatch") {
			t.Errorf("mode %04o as a kubelet sets it: %v", mode, err)
		}
	}
}

func TestManyWhoOpenAtOnceEndWithOneCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	prints := make([]string, 64)
	var all sync.WaitGroup
	for i := range prints {
		all.Go(func() {
			c, err := Open(dir, Options{})
			if err != nil {
				t.Error(err)
				return
			}
			prints[i] = c.Fingerprint()
		})
	}
	all.Wait()
	for _, one := range prints {
		if one != prints[0] {
			t.Fatal("they have different CAs")
		}
	}
}

func TestProcessesThatStartAtOnceEndWithOneCA(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	var out [6]bytes.Buffer
	var all []*exec.Cmd
	for i := range out {
		command := exec.CommandContext(t.Context(), os.Args[0])
		command.Env = append(os.Environ(), "CA_TEST_OPEN="+dir)
		command.Stdout = &out[i]
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, command)
	}
	for i, one := range all {
		if err := one.Wait(); err != nil {
			t.Errorf("%v: %s", err, out[i].String())
		}
	}
	for i := range out {
		if out[i].Len() == 0 || out[i].String() != out[0].String() {
			t.Errorf("process %d has %q, the first %q", i, out[i].String(), out[0].String())
		}
	}
}

func TestAProcessThatDiedBetweenKeyAndCertificateIsNoObstacle(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	key := open(t, dir, Options{}).key
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if again := open(t, dir, Options{}); !again.key.Equal(key) {
		t.Error("the key was exchanged")
	}
}

func TestDamagedFilesGiveAClearErrorAndAreLeftAlone(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other")
	open(t, other, Options{})
	foreign := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(other, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	leaf := func() []byte {
		c := open(t, other, Options{})
		return []byte("-----BEGIN CERTIFICATE-----\n" + base64Lines(leafOf(t, c, "api.test").Raw) + "-----END CERTIFICATE-----\n")
	}()
	for _, one := range []struct {
		what, file string
		data       []byte
		says       string
	}{
		{"empty key", "ca-key.pem", nil, "has no private key in PEM"},
		{"key of noise", "ca-key.pem", []byte("\x00\xff noise"), "has no private key in PEM"},
		{"key that is cut off", "ca-key.pem", foreign("ca-key.pem")[:100], "has no private key in PEM"},
		{"key of nothing", "ca-key.pem", []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), "has a private key that cannot be read"},
		{"another CA's key", "ca-key.pem", foreign("ca-key.pem"), "belongs to another key"},
		{"certificate as key", "ca-key.pem", foreign("ca.pem"), "has no private key in PEM"},
		{"empty certificate", "ca.pem", nil, "has no certificate in PEM"},
		{"certificate of noise", "ca.pem", []byte("noise"), "has no certificate in PEM"},
		{"certificate of nothing", "ca.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "a certificate in the file cannot be read"},
		{"another CA's certificate", "ca.pem", foreign("ca.pem"), "belongs to another key"},
		{"a leaf", "ca.pem", leaf, "belongs to another key"},
		{"a huge certificate", "ca.pem", bytes.Repeat([]byte("x"), maxFile+1), "larger than"},
	} {
		t.Run(one.what, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "ca")
			open(t, dir, Options{})
			path := write(t, filepath.Join(dir, one.file), one.data, 0o600)
			_, err := Open(dir, Options{})
			if err == nil || !strings.Contains(err.Error(), one.says) || !strings.Contains(err.Error(), path) {
				t.Errorf("error: %v", err)
			}
			if err != nil && len(one.data) >= 60 && len(one.data) < 1000 && strings.Contains(err.Error(), string(one.data[30:60])) {
				t.Errorf("the error tells what the file holds: %v", err)
			}
			if data, _ := os.ReadFile(path); !bytes.Equal(data, one.data) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestACertificateWithoutItsKeyIsNotReplaced(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	open(t, dir, Options{})
	if err := os.Remove(filepath.Join(dir, "ca-key.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "has no key beside it") {
		t.Errorf("error: %v", err)
	}
}

func TestMoreNamesRenewTheRootForTheSameKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	old := open(t, dir, Options{Names: []string{"api.test"}})
	before := old.PEM()
	var notices []string
	c := open(t, dir, Options{Names: []string{"other.test"}, Notice: func(text string) { notices = append(notices, text) }})
	if len(notices) != 1 || !strings.Contains(notices[0], "clients must trust") || !strings.Contains(notices[0], c.Fingerprint()) {
		t.Errorf("notices: %q", notices)
	}
	if c.Fingerprint() == old.Fingerprint() || !c.key.Equal(old.key) {
		t.Error("the root was not renewed for its key")
	}
	for host, knows := range map[string]bool{"api.test": true, "other.test": false} {
		if _, err := leafOf(t, c, host).Verify(x509.VerifyOptions{Roots: pool(old)}); (err == nil) != knows {
			t.Errorf("%s, for a client with the old root: %v", host, err)
		}
		if _, err := leafOf(t, c, host).Verify(x509.VerifyOptions{Roots: pool(c)}); err != nil {
			t.Errorf("%s, for a client with the new root: %v", host, err)
		}
	}
	aside, err := filepath.Glob(filepath.Join(dir, "ca-????????????????.pem"))
	if err != nil || len(aside) != 1 {
		t.Fatalf("kept aside: %v, %v", aside, err)
	}
	if data, _ := os.ReadFile(aside[0]); !bytes.Equal(data, before) || !strings.Contains(notices[0], aside[0]) {
		t.Errorf("%s is not the old root, or not told about", aside[0])
	}
	again := open(t, dir, Options{Names: []string{"api.test"}, Notice: func(text string) { t.Error(text) }})
	if again.Fingerprint() != c.Fingerprint() {
		t.Error("two configurations that share a directory exchange its root in turns")
	}
}

func TestARenewalKeepsWhatAnotherProcessRenewedMeanwhile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	notices := 0
	serving := open(t, dir, Options{Names: []string{"a.test"}, Notice: func(string) { notices++ }})
	other := open(t, dir, Options{Names: []string{"b.test"}})
	if err := serving.SetNames([]string{"b.test"}); err != nil || serving.Fingerprint() != other.Fingerprint() || notices != 1 {
		t.Errorf("names that the other one covers: %v, %d notices", err, notices)
	}
	if err := serving.SetNames([]string{"c.test"}); err != nil || notices != 2 {
		t.Errorf("%v, %d notices", err, notices)
	}
	if names := strings.Join(open(t, dir, Options{Names: []string{}}).About().Names, " "); names != "a.test b.test c.test" {
		t.Errorf("the root is for %s", names)
	}
	write(t, filepath.Join(dir, "ca.pem"), []byte("damaged"), 0o644)
	first := serving.Fingerprint()
	if err := serving.SetNames(nil); err == nil || serving.Fingerprint() != first {
		t.Errorf("with a damaged file: %v", err)
	}
}

func TestFewerNamesKeepTheRoot(t *testing.T) {
	for _, names := range [][]string{nil, {"api.test", "other.test", "192.0.2.1"}} {
		dir := filepath.Join(t.TempDir(), "ca")
		first := open(t, dir, Options{Names: names})
		for _, fewer := range [][]string{{"api.test"}, {"v2.other.test", "192.0.2.1"}, {}} {
			c := open(t, dir, Options{Names: fewer, Notice: func(text string) { t.Error(text) }})
			if c.Fingerprint() != first.Fingerprint() {
				t.Errorf("from %v to %v: another root", names, fewer)
			}
		}
	}
}

func TestAReloadRenewsTheRootWhileLeavesStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	notices, signed := 0, 0
	c := open(t, dir, Options{Names: []string{"api.test"}, Notice: func(string) { notices++ }, OnSign: func() { signed++ }})
	leafOf(t, c, "api.test")
	first := c.Fingerprint()
	if err := c.SetNames([]string{"api.test", "bad name"}); err == nil || c.Fingerprint() != first {
		t.Errorf("a bad name: %v", err)
	}
	if err := c.SetNames([]string{"v2.api.test"}); err != nil || c.Fingerprint() != first || notices != 0 {
		t.Errorf("a covered name: %v, %d notices", err, notices)
	}
	if err := c.SetNames([]string{"192.0.2.1"}); err != nil || c.Fingerprint() == first || notices != 1 {
		t.Errorf("another name: %v, %d notices", err, notices)
	}
	if err := c.SetNames(nil); err != nil || !c.About().Any || notices != 2 {
		t.Errorf("every name: %v, %+v, %d notices", err, c.About(), notices)
	}
	if _, err := leafOf(t, c, "api.test").Verify(x509.VerifyOptions{Roots: pool(c)}); err != nil || signed != 1 {
		t.Errorf("the leaf from before: %v, %d signings", err, signed)
	}
}

func TestARootNearItsEndIsRenewed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	now := time.Now()
	clock := func() time.Time { return now }
	first := open(t, dir, Options{Now: clock})
	now = rootOf(t, first).NotAfter.Add(-rootMargin + time.Hour)
	told := ""
	c := open(t, dir, Options{Now: clock, Notice: func(text string) { told = text }})
	if c.Fingerprint() == first.Fingerprint() || !strings.Contains(told, "nears its end") {
		t.Errorf("notice: %q", told)
	}
}

func TestARootThatCannotBeWrittenStaysAsItWas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ca")
	c := open(t, dir, Options{Names: []string{"api.test"}})
	first := c.Fingerprint()
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := c.SetNames(nil); err == nil || c.Fingerprint() != first {
		t.Errorf("error: %v", err)
	}
}

func TestWithoutADirectoryNothingIsWritten(t *testing.T) {
	c := open(t, Dir("none"), Options{Names: []string{"api.test"}})
	if err := c.SetNames([]string{"other.test"}); err != nil || c.File() != "" || c.About().File != "" {
		t.Errorf("%v, file %q", err, c.File())
	}
}

func TestAboutTellsWhatTheRootIsFor(t *testing.T) {
	about := open(t, "", Options{Names: []string{"b.test", "192.0.2.1", "a.test", "www.b.test"}}).About()
	if strings.Join(about.Names, " ") != "a.test b.test 192.0.2.1" || about.Any {
		t.Errorf("%+v", about)
	}
	if none := open(t, "", Options{Names: []string{}}).About(); len(none.Names) != 0 || none.Any {
		t.Errorf("%+v", none)
	}
}
