package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A home directory into which this user may not look, as in an image that runs with another uid, is one
// warning. What is found and cannot be read is a fault that says how to do without.
func TestAForeignHomeIsNoFault(t *testing.T) {
	dir := t.TempDir()
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(home, 0o700) })
	as := "exec "
	if os.Getuid() == 0 {
		as += "setpriv --bounding-set=-dac_override,-dac_read_search "
		if _, err := os.ReadDir(home); err == nil && exec.Command("sh", "-c", as+"true").Run() != nil {
			t.Log("this user may look everywhere")
			return
		}
	}
	const serve = "abide serve --listen 127.0.0.1:0 --admin 127.0.0.1:0"
	env := []string{"HOME=" + home, "ABIDE_DATA=" + filepath.Join(dir, "data")}
	d := newDaemon(t, dir, "sh", env, "-c", as+serve)
	d.out.await(t, "proxy +http://")
	d.log.await(t, "this user may not look for a configuration in .*/home/.config/abide, .*--config")
	d = newDaemon(t, dir, "sh", append(env, "ABIDE_CONFIG_YAML={}"), "-c", as+serve)
	d.out.await(t, "config +ABIDE_CONFIG_YAML")
	d.signal(syscall.SIGHUP)
	d.log.await(t, "reloaded: ABIDE_CONFIG_YAML cannot be read again")
	if log := d.log.String(); strings.Contains(log, "may not look") {
		t.Error(log)
	}
	if err := os.WriteFile(filepath.Join(dir, "abide.yaml"), nil, 0); err != nil {
		t.Fatal(err)
	}
	d = newDaemon(t, dir, "sh", env, "-c", as+serve)
	if code := d.status(); code != exitUsage || !strings.Contains(d.log.String(), "open abide.yaml: permission denied\nabide.yaml is read because no other configuration is named: --config FILE") {
		t.Errorf("%d %s", code, d.log)
	}
}

// The banner in the log of a container is for crawlers in others.
func TestTheBannerOfAContainer(t *testing.T) {
	as := []string{"--pid", "--fork", "--kill-child"}
	if os.Getuid() != 0 {
		as = append(as, "--user", "--map-root-user")
	}
	if err := exec.Command("unshare", append(as, "true")...).Run(); err != nil {
		t.Log("no namespace for processes can be made here:", err)
		return
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "access: {clients: [{name: news, secret: canary}]}\n")
	d := newDaemon(t, dir, "unshare", nil, append(as, "abide", "serve", "--listen", "0.0.0.0:0", "--listen-open", "0.0.0.0:0", "--admin", "127.0.0.1:0")...)
	port := d.out.await(t, `open +http://127.0.0.1:(\d+) `)[1]
	text := d.out.await(t, `(?s)In another container or machine, .*#containers`)[0]
	if strings.Contains(text, "eval") || !strings.Contains(text, "\n  HTTPS_PROXY=http://news:SECRET@HOST:"+port+"\n") {
		t.Error(text)
	}
}

// In a container with an init process, or on a machine, the banner is for crawlers elsewhere and here.
func TestTheBannerOfListenersForOthers(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "admin: {listen: '0.0.0.0:0', token: canary-canary-canary-canary}\n")
	d := launch(t, dir, nil, "serve", "--listen", "0.0.0.0:0", "--listen-open", "0.0.0.0:0")
	open := d.out.await(t, `open +http://127.0.0.1:(\d+) `)[1]
	admin := d.out.await(t, `dashboard +http://127.0.0.1:(\d+)/ `)[1]
	text := d.out.await(t, `(?s)In another container or machine, .*eval`)[0]
	if !strings.Contains(text, "\n  HTTPS_PROXY=http://HOST:"+open+"\n") || !strings.Contains(text, "http://HOST:"+admin+"/bundle.pem, see docs/operating.md#containers\n") {
		t.Error(text)
	}
}

// A reload says again only what it has changed.
func TestAReloadWarnsOfWhatIsNew(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "abide.yaml")
	write(t, file, "listen: 0.0.0.0:0\n")
	d := launch(t, dir, nil, "serve", "--admin", "127.0.0.1:0")
	d.log.await(t, "access.clients is empty")
	d.log.forget()
	write(t, file, "listen: 0.0.0.0:0\negress: {allow: [0.0.0.0/0]}\n")
	d.log.await(t, "the configuration was reloaded")
	if log := d.log.String(); strings.Contains(log, "access.clients is empty") || !strings.Contains(log, "egress.allow: 0.0.0.0/0 lets clients") {
		t.Error(log)
	}
	write(t, file, "listen: 127.0.0.1:0\negress: {ports: [1]}\n")
	d.log.await(t, "it changes listen, which takes a restart; until then nothing else of it is applied")
}

// The last line counts requests by how they ended.
func TestADrainSaysHowRequestsEnded(t *testing.T) {
	came, release := make(chan string, 9), make(chan struct{})
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/cut" {
			fmt.Fprintln(w, "begun")
			_ = http.NewResponseController(w).Flush()
		}
		came <- r.URL.Path
		if r.URL.Path == "/answered" {
			<-release
			return
		}
		<-r.Context().Done()
	}))
	defer site.Close()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), `egress: {resolve: {"api.test:80": "`+site.Listener.Addr().String()+`"}}
timeouts: {drain: 2s}
defaults: {learn: false}
`)
	d := serveIn(t, dir, nil)
	for _, path := range []string{"/refused", "/refused", "/cut", "/answered"} {
		go func() {
			if answer, err := d.client(nil).Get("http://api.test" + path); err == nil {
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
		<-came
	}
	d.signal(syscall.SIGTERM)
	d.log.await(t, "stopping: what is in flight")
	close(release)
	d.log.await(t, `4 requests ended meanwhile" answered=1 cut=1 refused=2`)
}

// The lines of abide env are for a running abide without an admin listener, too.
func TestEnvWithoutAnAdminListener(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "abide.yaml"), "listen: 127.0.0.1:0\nadmin: {listen: \"off\"}\ndata: data\n")
	d := launch(t, dir, nil, "serve")
	d.out.await(t, "proxy +http://")
	e := launch(t, dir, nil, "env", "--listen", "127.0.0.1:4000")
	if code := e.status(); code != 0 || !strings.Contains(e.out.String(), "export HTTPS_PROXY=http://127.0.0.1:4001\n") {
		t.Errorf("%d %s%s", code, e.out, e.log)
	}
}
