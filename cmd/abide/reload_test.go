//go:build unix

package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const (
	reloaded = "the configuration was reloaded"
	refused  = "the configuration was not reloaded and the last good one stays: "
)

// closed lets nobody in without a name.
const closed = "access: {clients: [{name: news, secret: one}]}\n"

func TestAChangedFileIsReadAgain(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "log: {level: info}\n")
	d := serveIn(t, dir, nil)
	if code, _ := d.get(o.url); code != 200 {
		t.Fatalf("before: %d", code)
	}

	write(t, file, closed)
	d.log.await(t, reloaded)
	if code, _ := d.get(o.url); code != http.StatusProxyAuthRequired {
		t.Errorf("without a name: %d", code)
	}
	if code, _ := fetch(t, d.client(url.UserPassword("news", "one")), o.url); code != 200 {
		t.Errorf("with a name: %d", code)
	}

	// The other way to write a file: in place.
	d.log.forget()
	if err := os.WriteFile(file, []byte("log: {level: info, access: true}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	d.log.await(t, reloaded)
	if code, _ := d.get(o.url); code != 200 {
		t.Errorf("after: %d", code)
	}
}

func TestABadFileLeavesTheLastGoodOne(t *testing.T) {
	o, dir := newOrigin(t), t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, closed)
	d := serveIn(t, dir, nil)
	metric := func() string {
		_, text := d.ask("/metrics")
		for _, line := range strings.Split(text, "\n") {
			if value, ok := strings.CutPrefix(line, "abide_config_last_reload_successful "); ok {
				return value
			}
		}
		return "missing"
	}
	if got := metric(); got != "1" {
		t.Errorf("the metric is %s at the start", got)
	}

	write(t, file, closed+"\nlisen: canary\n")
	d.log.await(t, refused+`.*abide\.yaml:3: .*did you mean`)
	if code, _ := d.get(o.url); code != http.StatusProxyAuthRequired {
		t.Errorf("the last good one does not hold: %d", code)
	}
	if got := metric(); got != "0" {
		t.Errorf("the metric is %s after a bad file", got)
	}

	// SIGHUP tries again, and a file that has gone is a bad one.
	d.log.forget()
	d.signal(syscall.SIGHUP)
	d.log.await(t, refused)
	d.log.forget()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	d.log.await(t, refused+".*no such file")
	if code, _ := d.get(o.url); code != http.StatusProxyAuthRequired {
		t.Errorf("the last good one does not hold: %d", code)
	}

	d.log.forget()
	write(t, file, "log: {level: info}\n")
	d.log.await(t, reloaded)
	if code, _ := d.get(o.url); code != 200 {
		t.Errorf("after the repair: %d", code)
	}
	if got := metric(); got != "1" {
		t.Errorf("the metric is %s after the repair", got)
	}
}

func TestWhatTakesARestartIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "timeouts: {idle: 90s}\n")
	d := serveIn(t, dir, nil)
	write(t, file, "timeouts: {idle: 80s}\ndata: elsewhere\nmetrics: {sites: 7}\n")
	d.log.await(t, refused+"it changes data, timeouts.idle, metrics.sites, which takes a restart")
}

func TestTheOperatorCanHaveItReloaded(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "log: {level: info}\n")
	d := serveIn(t, dir, nil)
	post := func() int {
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequest(http.MethodPost, "http://"+d.admin+"/api/v1/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	if got := post(); got/100 != 2 {
		t.Errorf("a good file: %d", got)
	}
	d.log.await(t, reloaded)
	write(t, file, "lisen: 1\n")
	if got := post(); got/100 == 2 {
		t.Errorf("a bad file: %d", got)
	}
}

// Kubernetes mounts a ConfigMap so: the file is a link through ..data, which is
// a link to a directory of the moment, and is swapped by renaming.
func TestAConfigMapIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	mount := filepath.Join(dir, "mount")
	version := func(name, text string) {
		t.Helper()
		write(t, filepath.Join(mount, name, "abide.yaml"), text)
		link := filepath.Join(mount, "..data")
		if err := os.Symlink(name, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", "log: {level: info}\n")
	if err := os.Symlink(filepath.Join("..data", "abide.yaml"), filepath.Join(mount, "abide.yaml")); err != nil {
		t.Fatal(err)
	}
	o := newOrigin(t)
	d := serveIn(t, dir, nil, "--config", filepath.Join(mount, "abide.yaml"))
	for n := 2; n < 6; n++ {
		text, want := closed, http.StatusProxyAuthRequired
		if n%2 == 1 {
			text, want = "log: {level: info}\n", http.StatusOK
		}
		d.log.forget()
		version(fmt.Sprintf("..%d", n), text)
		if err := os.RemoveAll(filepath.Join(mount, fmt.Sprintf("..%d", n-1))); err != nil {
			t.Fatal(err)
		}
		d.log.await(t, reloaded)
		if code, _ := d.get(o.url); code != want {
			t.Errorf("version %d: %d, want %d", n, code, want)
		}
	}
}

func TestAReloadLosesNoRequestAndDoublesNone(t *testing.T) {
	const n = 200
	o, dir := newOrigin(t), t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	const unlimited = "defaults: {limits: [], learn: false}\n" // all are on their way at once
	write(t, file, unlimited)
	d := serveIn(t, dir, nil)
	client := d.client(nil)
	var flying sync.WaitGroup
	codes := make(chan int, n)
	for range n {
		flying.Go(func() {
			answer, err := client.Get(o.url + "/held")
			if err != nil {
				codes <- 0
				return
			}
			answer.Body.Close()
			codes <- answer.StatusCode
		})
	}
	o.wait(t, n)
	// Who may connect, and everything that upstreams are reached with.
	write(t, file, unlimited+closed+"timeouts: {answer: 4m, connect: 3s}\nbounds: {idle: 17}\n")
	d.log.await(t, reloaded)
	o.letGo()
	flying.Wait()
	for range n {
		if code := <-codes; code != 200 {
			t.Errorf("a request in flight got %d", code)
		}
	}
	if extra := len(o.asked); extra > 0 {
		t.Errorf("%d requests were sent twice", extra)
	}
}
