//go:build linux

// Package deploy has the examples of how abide is deployed, and tests that run
// them.
package deploy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gopkg.in/yaml.v3"
)

// The addresses of the containers and of the site.
const (
	abideAddress   = "10.89.0.1"
	crawlerAddress = "10.89.0.2"
	outerAddress   = "10.89.1.1" // of abide, where the site is
	siteAddress    = "10.89.1.2"

	token = "a-token-for-this-test"
)

// reachSite has abide find the site, and trust its certificate.
var reachSite = []string{"ABIDE_EGRESS_RESOLVE=example.com:443=" + siteAddress + ":443", "ABIDE_EGRESS_ROOTS=/data/site.pem"}

// composed is what this test knows of a file for Docker Compose.
type composed struct {
	Services map[string]*service
	Volumes  map[string]any
}

type service struct {
	Image       string
	Command     []string
	Environment map[string]string
	Volumes     []string
	Secrets     []string
	ReadOnly    bool     `yaml:"read_only"`
	CapDrop     []string `yaml:"cap_drop"`
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// deployment is the example for Docker Compose, run without Docker: each container is
// a network of its own, a directory as read-only root, and a user without rights.
type deployment struct {
	t       *testing.T
	image   *image
	compose composed
	volumes map[string]string     // name → directory
	network map[string]*namespace // service → its own
}

func deploy(t *testing.T) *deployment {
	t.Helper()
	d := &deployment{t: t, image: buildImage(t, "../.."), volumes: map[string]string{}, network: map[string]*namespace{}}
	readYAML(t, "../../deploy/compose.yaml", &d.compose)
	for _, name := range []string{"data", "trust"} {
		if _, ok := d.compose.Volumes[name]; !ok {
			t.Fatalf("compose.yaml has no volume %s", name)
		}
		d.volumes[name] = d.image.volume(t, "/"+name)
	}
	abide, crawler, site, trust := newNamespace(t, "abide"), newNamespace(t, "crawler"), newNamespace(t, "site"), newNamespace(t, "trust")
	d.network = map[string]*namespace{"abide": abide, "crawler": crawler, "site": site, "trust": trust}
	crawler.join("eth0", crawlerAddress, abide, "eth0", abideAddress)
	site.join("eth0", siteAddress, abide, "eth1", outerAddress)
	return d
}

// container is that of a service of the image.
func (d *deployment) container(name string) *container {
	d.t.Helper()
	s := d.compose.Services[name]
	if s == nil || s.Image != "abide" || !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) {
		d.t.Fatalf("%s is not the image with a read-only root and without capabilities: %+v", name, s)
	}
	c := &container{t: d.t, image: d.image, network: d.network[name]}
	for _, mount := range s.Volumes {
		volume, path, _ := strings.Cut(mount, ":")
		c.mounts = append(c.mounts, [2]string{d.volumes[volume], path})
	}
	for key, value := range s.Environment {
		c.env = append(c.env, key+"="+strings.ReplaceAll(value, "${ABIDE_ADMIN_TOKEN:?}", token))
	}
	return c
}

// crawl runs curl as the crawler of the example, but that names are addresses.
func (d *deployment) crawl(arguments ...string) *exec.Cmd {
	d.t.Helper()
	s := d.compose.Services["crawler"]
	if !slices.Equal(s.Volumes, []string{"trust:/trust:ro"}) {
		d.t.Fatalf("the crawler has %v", s.Volumes)
	}
	var env []string
	for key, value := range s.Environment {
		env = append(env, key+"="+strings.ReplaceAll(value, "://abide:", "://"+abideAddress+":"))
	}
	return crawl(d.t, d.network["crawler"], d.volumes["trust"], env, arguments...)
}

// ask is a GET of the admin listener from the crawler's network.
func (d *deployment) ask(path string, headers ...string) (int, string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, "http://"+abideAddress+":9128"+path, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	r.Host = "abide:9128"
	for _, one := range headers {
		name, value, _ := strings.Cut(one, ": ")
		r.Header.Set(name, value)
	}
	answer, err := d.network["crawler"].client().Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		d.t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestTheComposeExampleOpensHTTPSForACrawlerBesideIt(t *testing.T) {
	d := deploy(t)
	site := newSite(t, d.network["site"], d.volumes["data"])
	box := d.container("abide")
	box.env = append(box.env, reachSite...)
	abide, ended := box.serve(slices.Concat(d.image.start, d.image.command)...)

	d.holdsNoRights(abide.Process.Pid)
	output(t, box.command(d.image.health...))
	for _, port := range d.image.ports {
		conn, err := d.network["crawler"].dial(t.Context(), "tcp", abideAddress+":"+port)
		if err != nil {
			t.Fatalf("EXPOSE %s: %v", port, err)
		}
		conn.Close()
	}

	// What the crawler trusts, and nothing else of abide's.
	trust := d.container("trust")
	output(t, trust.command(slices.Concat(d.image.start, d.compose.Services["trust"].Command)...))
	d.sharesNoKey()
	if _, err := trust.command(append(d.image.start, "ca", "export", "--out", "/bundle.pem")...).CombinedOutput(); err == nil {
		t.Error("the root of the container can be written")
	}

	// The example's own command, and that its https was opened.
	crawler := d.compose.Services["crawler"]
	if got := output(t, d.crawl(crawler.Command...)); got != "200\n" || site.served.Load() != 1 {
		t.Errorf("the crawler got %q, the site %d requests", got, site.served.Load())
	}
	if got := output(t, d.crawl("-sS", "-D", "-", "https://example.com/")); !strings.Contains(got, "from the site") || !strings.Contains(strings.ToLower(got), "abide-site: example.com") {
		t.Errorf("it was not opened: %s", got)
	}
	d.answersProbesAndPrometheus()

	// What is in flight has its time when abide is stopped.
	held := d.crawl("-sS", "https://example.com/held")
	var got bytes.Buffer
	held.Stdout, held.Stderr = &got, &got
	if err := held.Start(); err != nil {
		t.Fatal(err)
	}
	<-site.asked
	if err := abide.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, _ := d.ask("/healthz"); status != http.StatusOK {
		t.Errorf("while it stops, /healthz is %d", status)
	}
	close(site.release)
	if err := held.Wait(); err != nil || got.String() != "from the site" {
		t.Errorf("what was in flight: %v %s", err, &got)
	}
	if err := <-ended; err != nil {
		t.Errorf("abide ended with %v", err)
	}
}

// holdsNoRights looks at a process as the kernel sees it.
func (d *deployment) holdsNoRights(pid int) {
	d.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		d.t.Fatal(err)
	}
	uid, gid, _ := strings.Cut(d.image.user, ":")
	for _, want := range []string{
		`Uid:\t` + uid + `\t` + uid + `\t` + uid, `Gid:\t` + gid + `\t` + gid + `\t` + gid, `Groups:\t *$`,
		`CapEff:\t0+$`, `CapPrm:\t0+$`, `NoNewPrivs:\t1$`,
	} {
		if !regexp.MustCompile(`(?m)^` + want).Match(status) {
			d.t.Errorf("the process does not have %s:\n%s", want, status)
		}
	}
}

// sharesNoKey looks at what the crawler can read.
func (d *deployment) sharesNoKey() {
	d.t.Helper()
	entries, err := os.ReadDir(d.volumes["trust"])
	if err != nil || len(entries) != 1 || entries[0].Name() != "bundle.pem" {
		d.t.Errorf("the crawler is given %v, %v", entries, err)
	}
	bundle, err := os.ReadFile(filepath.Join(d.volumes["trust"], "bundle.pem"))
	if err != nil || bytes.Contains(bundle, []byte("PRIVATE")) || bytes.Count(bundle, []byte("BEGIN CERTIFICATE")) < 10 {
		d.t.Errorf("the bundle has %d bytes, %v", len(bundle), err)
	}
	if _, served := d.ask("/ca.pem"); !bytes.HasPrefix(bundle, []byte(served)) {
		d.t.Error("the bundle does not begin with the CA certificate that abide serves")
	}
}

// answersProbesAndPrometheus asks without the token, and as prometheus.yaml does.
func (d *deployment) answersProbesAndPrometheus() {
	d.t.Helper()
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/ca.pem": 200, "/bundle.pem": 200, "/bundle.jks": 200, "/metrics": 401, "/": 401} {
		if status, body := d.ask(path); status != want || strings.Contains(body, "PRIVATE") {
			d.t.Errorf("%s without the token: %d", path, status)
		}
	}
	var prometheus struct {
		Jobs []struct {
			Static        []struct{ Targets []string } `yaml:"static_configs"`
			Authorization struct {
				File string `yaml:"credentials_file"`
			}
		} `yaml:"scrape_configs"`
	}
	readYAML(d.t, "../../deploy/prometheus.yaml", &prometheus)
	job := prometheus.Jobs[0]
	secrets := d.compose.Services["prometheus"].Secrets
	if !slices.Equal(job.Static[0].Targets, []string{"abide:9128"}) || len(secrets) != 1 || job.Authorization.File != "/run/secrets/"+secrets[0] {
		d.t.Errorf("prometheus.yaml and compose.yaml do not agree: %+v, %v", job, secrets)
	}
	status, body := d.ask("/metrics", "Authorization: Bearer "+token)
	if status != http.StatusOK || !strings.Contains(body, `abide_requests_total{code="200",method="GET",site="example.com"} 2`) {
		d.t.Errorf("/metrics: %d, %s", status, regexp.MustCompile(`(?m)^abide_requests_total.*$`).FindString(body))
	}
}
