// Command release makes what a release consists of, for each target a static
// binary in an archive, its list of modules (CycloneDX) and, for Linux, a Debian
// package; and checksums.txt of them all. `make release` runs it.
//
// The same commit gives the same bytes, on any machine and in any directory, with
// the same Go: nothing of the machine, the clock or a user gets into a file.
package main

import (
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release says which files are made of which source.
type release struct {
	source  string // the directory of the repository
	out     string // the directory for the files; created when it is missing
	version string // as git describe prints it
	time    time.Time
	targets []target
	pages   []file // the man pages
}

func main() {
	var r release
	var targets, seconds string
	flag.StringVar(&r.source, "source", ".", "`directory` of the repository")
	flag.StringVar(&r.out, "out", "dist", "`directory` for the files")
	flag.StringVar(&r.version, "version", "devel", "`version`, as git describe prints it")
	flag.StringVar(&targets, "targets", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "`list` of GOOS/GOARCH")
	flag.StringVar(&seconds, "time", "0", "time of the files, in `seconds` since 1970: that of the commit")
	flag.Parse()
	err, code := r.parse(targets, seconds), 2
	if err == nil {
		err, code = r.make(), 1
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(code)
	}
}

func (r *release) parse(targets, seconds string) error {
	unix, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("-time %q is not a number of seconds", seconds)
	}
	r.time = time.Unix(unix, 0).UTC()
	for _, text := range strings.Split(targets, ",") {
		system, arch, ok := strings.Cut(text, "/")
		if !ok {
			return fmt.Errorf("-targets: %q is not GOOS/GOARCH, as linux/amd64 is", text)
		}
		r.targets = append(r.targets, target{system: system, arch: arch})
	}
	return nil
}

// make writes the files of every target, then checksums.txt.
func (r *release) make() error {
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "abide-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if r.pages, err = r.manPages(filepath.Join(scratch, "man")); err != nil {
		return err
	}
	made := map[string][]byte{} // name → content
	for _, t := range r.targets {
		p, err := r.build(t, filepath.Join(scratch, t.system+"-"+t.arch))
		if err != nil {
			return fmt.Errorf("%s/%s: %w", t.system, t.arch, err)
		}
		if err := r.add(made, p); err != nil {
			return fmt.Errorf("%s/%s: %w", t.system, t.arch, err)
		}
	}
	made["checksums.txt"] = checksums(made)
	for name, content := range made {
		if err := os.WriteFile(filepath.Join(r.out, name), content, 0o644); err != nil {
			return err
		}
	}
	fmt.Print(string(made["checksums.txt"]))
	return nil
}

// add makes the files of one program.
func (r *release) add(made map[string][]byte, p *program) error {
	name := fmt.Sprintf("abide_%s_%s_%s", strings.TrimPrefix(r.version, "v"), p.system, p.arch)
	files, err := r.documents(p)
	if err != nil {
		return err
	}
	inside := []file{{name: name + "/abide", mode: 0o755, content: p.binary}}
	for _, one := range slices.Concat(files, below("man/", r.pages)) {
		one.name = name + "/" + one.name
		inside = append(inside, one)
	}
	if made[name+".tar.gz"], err = tarball(inside, r.time); err != nil {
		return err
	}
	if made[name+".cdx.json"], err = bill(p, r.version); err != nil {
		return err
	}
	if p.system != "linux" {
		return nil
	}
	version := debianVersion(r.version, r.time)
	made[fmt.Sprintf("abide_%s_%s.deb", version, p.arch)], err = r.debian(p, version, files)
	return err
}

// checksums returns a list that `sha256sum -c` reads.
func checksums(made map[string][]byte) []byte {
	var list bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(made)) {
		fmt.Fprintf(&list, "%x  %s\n", sha256.Sum256(made[name]), name)
	}
	return list.Bytes()
}
