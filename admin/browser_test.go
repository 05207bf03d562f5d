package admin

import (
	"context"
	"image"
	_ "image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/abide-proxy/abide/policy"
)

// chromium runs a real browser once and gives what it printed.
func chromium(t *testing.T, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "chromium", append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--virtual-time-budget=2000", "--user-data-dir=" + t.TempDir(),
	}, arguments...)...)
	cmd.WaitDelay = 5 * time.Second
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("chromium: %v (make test installs it)", err)
	}
	return string(out)
}

func TestTheDashboardIsReadableInARealBrowser(t *testing.T) {
	b := newBed(t, func(p *policy.Policy, o *Options) {
		withHolds(many(3, "api.example.com", "2 in flight", time.Time{})...)(p, o)
		withBreakers(Breaker{Site: "ill.example.com", State: "open"})(p, o)
	})
	site := b.metrics.Site("api.example.com")
	site.Request("GET", 200, time.Millisecond)
	site.Read(1_500_000)
	b.metrics.Site(`<script>document.title = "run"</script>`).Request("GET", 200, time.Millisecond)

	page := chromium(t, "--dump-dom", "http://"+b.address+"/")
	for _, want := range []string{"api.example.com", "HTTP_PROXY", "limited by 2 in flight", "ill.example.com", "&lt;script&gt;document.title"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(page, "<title>run</title>") {
		t.Error("AD-05: the name of a site was run")
	}

	file := filepath.Join(t.TempDir(), "page.png")
	chromium(t, "--window-size=900,1200", "--screenshot="+file, "http://"+b.address+"/")
	shot, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer shot.Close()
	picture, _, err := image.Decode(shot)
	if err != nil {
		t.Fatal(err)
	}
	colours := map[[3]uint32]bool{}
	for y := range picture.Bounds().Dy() {
		for x := range picture.Bounds().Dx() {
			r, g, b, _ := picture.At(x, y).RGBA()
			colours[[3]uint32{r, g, b}] = true
		}
	}
	if len(colours) < 10 {
		t.Errorf("%d colours: the style sheet was not used or nothing was drawn", len(colours))
	}
}
