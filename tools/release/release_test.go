package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// madeAt is the time of the commit that the releases of these tests are made of.
var madeAt = time.Date(2026, 11, 22, 10, 41, 7, 0, time.UTC)

// released makes a release of this machine's architecture once for all tests, as
// `make release` does, and returns the directory with its files.
var released = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "abide-release-test-")
	if err != nil {
		return "", err
	}
	return dir, makeRelease("../..", dir)
})

// command is this program. It is built without the race detector, with which
// compressing takes minutes.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "abide-release-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "release")
	if out, err := exec.Command("go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		return path, fmt.Errorf("%w\n%s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, _ := released(); dir != "" {
		os.RemoveAll(dir)
	}
	if path, _ := command(); path != "" {
		os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

func makeRelease(source, out string) error {
	path, err := command()
	if err != nil {
		return err
	}
	run := exec.Command(path, "-out", out, "-version", "v1.2.3", "-time", strconv.FormatInt(madeAt.Unix(), 10), "-targets", "linux/"+runtime.GOARCH)
	run.Dir = source
	if said, err := run.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, said)
	}
	return nil
}

// releasedFile is the content of a file of the release.
func releasedFile(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := released()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func archiveName(ending string) string { return "abide_1.2.3_linux_" + runtime.GOARCH + ending }

func packageName() string { return "abide_1.2.3_" + runtime.GOARCH + ".deb" }

// TestTwoReleasesOfOneCommitAreTheSameBytes makes the second in another directory
// and with other settings of Go.
func TestTwoReleasesOfOneCommitAreTheSameBytes(t *testing.T) {
	first := releasedFile(t, "checksums.txt")
	source, out := t.TempDir(), t.TempDir()
	copyTree(t, "../..", source)
	t.Setenv("GOFLAGS", "-ldflags=-X=main.version=other")
	t.Setenv("GOAMD64", "v2")
	t.Setenv("CGO_ENABLED", "1")
	if err := makeRelease(source, out); err != nil {
		t.Fatal(err)
	}
	second, err := os.ReadFile(filepath.Join(out, "checksums.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first, second) {
		t.Errorf("the checksums are\n%sand then\n%s", first, second)
	}
	check := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = out
	if said, err := check.CombinedOutput(); err != nil || strings.Count(string(said), ": OK") != 3 {
		t.Errorf("sha256sum: %v\n%s", err, said)
	}
}

// copyTree copies the sources, without what tools have put beside them.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		inside, relErr := filepath.Rel(from, path)
		switch name := entry.Name(); {
		case errors.Join(err, relErr) != nil:
			return errors.Join(err, relErr)
		case entry.IsDir() && inside != "." && (name[0] == '.' || name == "node_modules" || name == "bin" || name == "dist"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, inside), 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, inside), content, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnArchiveHasTheProgramItsDocumentsAndEveryLicence(t *testing.T) {
	files := unpacked(t, releasedFile(t, archiveName(".tar.gz")))
	top := archiveName("") + "/"
	for _, name := range []string{"abide", "LICENSE", "THIRD_PARTY_LICENSES", "README.md", "CHANGELOG.md", "config.example.yaml", "docs/operating.md"} {
		if len(files[top+name]) == 0 {
			t.Errorf("the archive has no %s", name)
		}
	}
	licences := string(files[top+"THIRD_PARTY_LICENSES"])
	for _, text := range []string{
		"The Go programming language go1.", "Copyright 2009 The Go Authors",
		"modernc.org/sqlite v", "Copyright (c) 2017 The Sqlite Authors",
		"github.com/hashicorp/golang-lru/v2 v", "Mozilla Public License, version 2.0",
	} {
		if !strings.Contains(licences, text) {
			t.Errorf("THIRD_PARTY_LICENSES does not have %q", text)
		}
	}
}

// unpacked is the files of a tar.gz, which are all of the time of the commit and of
// nobody but root.
func unpacked(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for from := tar.NewReader(unzipped); ; {
		header, err := from.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if !header.ModTime.Equal(madeAt) || header.Uid != 0 || header.Uname != "root" {
			t.Errorf("%s is of %v and belongs to %q (%d)", header.Name, header.ModTime, header.Uname, header.Uid)
		}
		if files[header.Name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheBillOfMaterialsListsWhatGoListsInTheProgram(t *testing.T) {
	var document cyclonedx.BOM
	if err := json.Unmarshal(releasedFile(t, archiveName(".cdx.json")), &document); err != nil {
		t.Fatal(err)
	}
	if document.BOMFormat != "CycloneDX" || document.Metadata.Component.PackageURL != "pkg:golang/github.com/abide-proxy/abide@v1.2.3" {
		t.Errorf("it is %s of %s", document.BOMFormat, document.Metadata.Component.PackageURL)
	}
	binary := filepath.Join(t.TempDir(), "abide")
	content := unpacked(t, releasedFile(t, archiveName(".tar.gz")))[archiveName("")+"/abide"]
	if err := os.WriteFile(binary, content, 0o600); err != nil {
		t.Fatal(err)
	}
	listed, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for line := range strings.Lines(string(listed)) {
		if fields := strings.Fields(line); len(fields) >= 3 && fields[0] == "dep" {
			want["pkg:golang/"+fields[1]+"@"+fields[2]] = true
		}
	}
	if len(want) < 20 {
		t.Fatalf("go lists only %d modules:\n%s", len(want), listed)
	}
	for _, one := range *document.Components {
		if strings.HasPrefix(one.PackageURL, "pkg:golang/stdlib@1.") {
			continue
		}
		if !want[one.PackageURL] || one.Hashes == nil || len(*one.Hashes) != 1 || len((*one.Hashes)[0].Value) != 64 {
			t.Errorf("%s is not in the program, or has no hash: %v", one.PackageURL, one.Hashes)
		}
		delete(want, one.PackageURL)
	}
	if len(want) > 0 {
		t.Errorf("these are in the program and not in the list: %v", want)
	}
}

// TestGoInstallCanBuildTheModule: `go install …@latest` refuses a module whose
// go.mod has such lines.
func TestGoInstallCanBuildTheModule(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if first, _, _ := strings.Cut(strings.TrimSpace(line), " "); first == "replace" || first == "exclude" {
			t.Errorf("go.mod has %q", line)
		}
	}
}
