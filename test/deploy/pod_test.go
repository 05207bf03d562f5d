//go:build linux

package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// The containers of a pod have one network. The kubelet and Prometheus are elsewhere,
// in this test where the site is.
func TestThePodExampleOpensHTTPSForItsCrawler(t *testing.T) {
	i, all, config := buildImage(t, "../.."), pod(t), t.TempDir()
	volumes := map[string]string{"data": i.volume(t, "/data"), "trust": i.volume(t, "/trust"), "config": config}
	if err := os.WriteFile(filepath.Join(config, "abide.yaml"), []byte(configMap(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(config, 0o755); err != nil {
		t.Fatal(err)
	}
	network, outside := newNamespace(t, "pod"), newNamespace(t, "outside")
	outside.join("eth0", siteAddress, network, "eth0", outerAddress)
	site := newSite(t, outside, volumes["data"])
	given := func(name string) *container {
		c := &container{t: t, image: i, network: network}
		for _, one := range all[name].Mounts {
			c.mounts = append(c.mounts, [2]string{volumes[one.Name], one.Path})
		}
		c.env = append(all[name].env(), reachSite...)
		return c
	}
	output(t, given("trust").command(append(i.start, all["trust"].Args...)...))
	abide, ended := given("abide").serve(append(i.start, all["abide"].Args...)...)

	got := output(t, crawl(t, network, volumes["trust"], all["crawler"].env(), "-sS", "-D", "-", "https://example.com/"))
	if !strings.Contains(got, "from the site") || !strings.Contains(strings.ToLower(got), "abide-site: example.com") || site.served.Load() != 1 {
		t.Errorf("it was not opened: %s", got)
	}
	for _, path := range []string{all["abide"].Startup.HTTP.Path, all["abide"].Liveness.HTTP.Path} {
		answer, err := outside.client().Get("http://" + outerAddress + ":9128" + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != 200 {
			t.Errorf("the probe of %s gets %d", path, answer.StatusCode)
		}
	}
	for _, port := range []string{"3128", "3129"} {
		if conn, err := outside.dial(t.Context(), "tcp", outerAddress+":"+port); err == nil {
			conn.Close()
			t.Errorf("others reach the proxy at port %s", port)
		}
	}
	if err := abide.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("abide ended with %v", err)
	}
}

// env is what the container has, with the token for the one variable of a secret.
func (c podContainer) env() []string {
	var all []string
	for _, one := range c.Env {
		if one.From.Secret.Name != "" {
			one.Value = token
		}
		all = append(all, one.Name+"="+one.Value)
	}
	return slices.Clip(all)
}
