// Command screenshots writes pictures of the page, with a built abide, a browser (chromium) and
// a crawl of servers on this machine:
//
//	go -C bench run ./screenshots               # docs/page.png and docs/page-dark.png, minutes
//	go -C bench run ./screenshots -for 20s -dir /tmp
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/abide-proxy/abide/bench/process"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "screenshots:", err)
		os.Exit(1)
	}
}

// settings are the command line.
type settings struct {
	dir    string
	crawl  time.Duration
	sites  int
	tokens int
	size   string
}

func run() error {
	var s settings
	flag.StringVar(&s.dir, "dir", "docs", "where the pictures go")
	flag.DurationVar(&s.crawl, "for", 8*time.Minute, "how long the crawl runs before a picture is taken")
	flag.IntVar(&s.sites, "sites", 0, "how many other sites are crawled too")
	flag.IntVar(&s.tokens, "tokens", 25, "how many tokens there are")
	flag.StringVar(&s.size, "size", "1440,1400", "width and height of the pictures")
	flag.Parse()
	if flag.NArg() > 0 || s.tokens < 1 || s.sites < 0 {
		return fmt.Errorf("not understood; see -help")
	}
	return process.Run(time.Hour, s.run)
}

func (s settings) run(ctx context.Context) error {
	root, err := process.RepositoryRoot(ctx)
	if err != nil {
		return err
	}
	if !filepath.IsAbs(s.dir) {
		s.dir = filepath.Join(root, s.dir) // "go -C bench" has changed the directory
	}
	dir, err := os.MkdirTemp("", "abide-page-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	binary := filepath.Join(dir, "abide")
	if err := process.Build(ctx, root, binary, "./cmd/abide"); err != nil {
		return err
	}
	servers := startServers()
	defer servers.Close()
	config := filepath.Join(dir, "abide.yaml")
	if err := os.WriteFile(config, []byte(configText(s, servers.Listener.Addr().String())), 0o600); err != nil {
		return err
	}
	proxy, err := process.FreeAddress()
	if err != nil {
		return err
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return err
	}
	abide := process.New("abide", binary, "serve", "--config", config, "--listen", proxy, "--admin", admin, "--data", filepath.Join(dir, "data"))
	if err := abide.StartAt(ctx, admin); err != nil {
		return err
	}
	defer abide.Stop()
	crawling, stop := context.WithCancel(ctx)
	done := crawl(crawling, proxy, s)
	defer func() { stop(); done() }()
	fmt.Printf("the page is at http://%s/ while the crawl runs, for %v\n", admin, s.crawl)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.crawl):
	}
	for name, dark := range map[string]bool{"page.png": false, "page-dark.png": true} {
		if err := s.picture(ctx, "http://"+admin+"/", filepath.Join(s.dir, name), dark, dir); err != nil {
			return err
		}
	}
	return nil
}

// picture has a browser draw the page.
func (s settings) picture(ctx context.Context, url, file string, dark bool, dir string) error {
	arguments := []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-proxy-server",
		"--user-data-dir=" + filepath.Join(dir, "browser"), "--timeout=3000", "--window-size=" + s.size, "--screenshot=" + file,
	}
	if dark {
		arguments = append(arguments, "--blink-settings=preferredColorScheme=0")
	}
	if out, err := exec.CommandContext(ctx, "chromium", append(arguments, url)...).CombinedOutput(); err != nil {
		return fmt.Errorf("chromium: %w (make setup installs it)\n%s", err, out)
	}
	picture, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("chromium has drawn nothing: %w", err)
	}
	fmt.Printf("%s: %d bytes\n", file, picture.Size())
	return nil
}
