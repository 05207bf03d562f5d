//go:build linux

package deploy

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// image is what the last stage of the Dockerfile makes, in a directory.
type image struct {
	root    string // its files
	labels  string
	env     []string // KEY=VALUE
	user    string   // uid:gid
	volumes []string // paths
	ports   []string
	start   []string // ENTRYPOINT
	command []string // CMD
	health  []string // of HEALTHCHECK
}

// workshop is where the first stage is built, once for all tests.
var (
	workshop string
	building sync.Once
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "abide-image-")
	if err != nil {
		panic(err)
	}
	workshop = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// instruction is one line of a Dockerfile.
type instruction struct{ name, rest string }

// stages are the instructions of a Dockerfile, those of each FROM together.
func stages(t *testing.T, path string) [][]instruction {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all [][]instruction
	lines := regexp.MustCompile(`(?m)^#.*\n`).ReplaceAllString(string(text), "")
	for _, line := range strings.Split(strings.ReplaceAll(lines, "\\\n", " "), "\n") {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == "" {
			continue
		}
		if name == "FROM" {
			all = append(all, nil)
		}
		last := len(all) - 1
		all[last] = append(all[last], instruction{name, strings.TrimSpace(rest)})
	}
	return all
}

// buildImage does what `docker build` would: it runs what the first stage runs, on
// this machine, and copies what the last stage copies. What it does not understand
// is an error, so that this test follows the Dockerfile.
func buildImage(t *testing.T, repository string) *image {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Fatal("this test makes files of other users, mounts and networks, as Docker does, which takes root")
	}
	all := stages(t, filepath.Join(repository, "Dockerfile"))
	if len(all) != 2 || all[1][0] != (instruction{"FROM", "scratch"}) {
		t.Fatalf("the Dockerfile does not have a stage that builds and one from scratch: %v", all)
	}
	built := filepath.Join(workshop, "out")
	building.Do(func() { runStage(t, all[0][1:], repository, built) })
	i := &image{root: t.TempDir()}
	if err := os.Chmod(i.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, one := range all[1][1:] {
		i.take(t, one, built)
	}
	return i
}

// runStage runs the first stage, with built in the place of /out.
func runStage(t *testing.T, stage []instruction, repository, built string) {
	t.Helper()
	if err := os.Mkdir(built, 0o755); err != nil {
		t.Fatal(err)
	}
	env := os.Environ()
	for _, one := range stage {
		switch one.name {
		case "WORKDIR", "COPY": // the repository is there
		case "ARG":
			env = append(env, one.rest)
		case "RUN":
			script := strings.ReplaceAll(one.rest, "/out/", built+"/")
			step := exec.Command("sh", "-ec", script)
			step.Dir, step.Env = repository, env
			if out, err := step.CombinedOutput(); err != nil {
				t.Fatalf("RUN %s: %v: %s", one.rest, err, out)
			}
		default:
			t.Fatalf("this test does not know what %s does", one.name)
		}
	}
}

// take follows one instruction of the last stage.
func (i *image) take(t *testing.T, item instruction, built string) {
	t.Helper()
	switch item.name {
	case "COPY":
		i.copy(t, strings.Fields(item.rest), built)
	case "ARG":
	case "LABEL":
		i.labels = item.rest
	case "ENV":
		i.env = append(i.env, strings.Fields(item.rest)...)
	case "USER":
		i.user = item.rest
	case "VOLUME":
		i.volumes = append(i.volumes, strings.Fields(item.rest)...)
	case "EXPOSE":
		i.ports = append(i.ports, strings.Fields(item.rest)...)
	case "ENTRYPOINT":
		i.start = words(t, item.rest)
	case "CMD":
		i.command = words(t, item.rest)
	case "HEALTHCHECK":
		_, command, _ := strings.Cut(item.rest, "CMD ")
		i.health = words(t, command)
	default:
		t.Fatalf("this test does not know what %s does", item.name)
	}
}

func words(t *testing.T, text string) []string {
	t.Helper()
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) == 0 {
		t.Fatalf("%s is not a list of words: %v", text, err)
	}
	return list
}

// copy follows COPY --from=build [--chown=UID:GID] FROM TO.
func (i *image) copy(t *testing.T, args []string, built string) {
	t.Helper()
	uid, gid := 0, 0
	for len(args) > 2 {
		name, value, _ := strings.Cut(args[0], "=")
		switch {
		case name == "--chown":
			uid, gid = owner(t, value)
		case args[0] != "--from=build":
			t.Fatalf("this test does not know COPY %s", args[0])
		}
		args = args[1:]
	}
	from, to := args[0], filepath.Join(i.root, args[1])
	// The base image of the first stage is a Debian, as this machine is.
	if rest, ok := strings.CutPrefix(from, "/out/"); ok {
		from = filepath.Join(built, rest)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	switch {
	case err != nil:
	case info.IsDir():
		err = emptyDirectory(from, to, info.Mode().Perm())
	default:
		err = copyFile(from, to, info.Mode().Perm())
	}
	if err == nil {
		err = os.Chown(to, uid, gid)
	}
	if err != nil {
		t.Fatalf("COPY %v: %v", args, err)
	}
}

func emptyDirectory(from, to string, mode fs.FileMode) error {
	if entries, err := os.ReadDir(from); err != nil || len(entries) > 0 {
		return &fs.PathError{Op: "copy", Path: from, Err: fs.ErrExist}
	}
	if err := os.Mkdir(to, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}

func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.WriteFile(to, data, mode); err != nil {
		return err
	}
	return os.Chmod(to, mode)
}

func owner(t *testing.T, user string) (uid, gid int) {
	t.Helper()
	first, second, _ := strings.Cut(user, ":")
	uid, errU := strconv.Atoi(first)
	gid, errG := strconv.Atoi(second)
	if errU != nil || errG != nil || uid == 0 || gid == 0 {
		t.Fatalf("%q is not the number of a user and of a group without rights", user)
	}
	return uid, gid
}

// volume is an empty directory as Docker makes one for a path of the image: with
// the owner and the mode that the path has there.
func (i *image) volume(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(filepath.Join(i.root, path))
	if err != nil || !info.IsDir() {
		t.Fatalf("the image has no directory %s, so a volume there would be root's: %v", path, err)
	}
	dir := t.TempDir()
	uid, gid := owner(t, i.user)
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestTheImageHasWhatItIsMeantToHaveAndNothingElse(t *testing.T) {
	i := buildImage(t, "../..")
	var found []string
	err := filepath.WalkDir(i.root, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && path != i.root {
			found = append(found, strings.TrimPrefix(path, i.root))
		}
		return err
	})
	want := []string{"/abide", "/data", "/etc", "/etc/passwd", "/etc/ssl", "/etc/ssl/certs", "/etc/ssl/certs/ca-certificates.crt", "/trust"}
	if err != nil || !slices.Equal(found, want) {
		t.Errorf("%v, %v", found, err)
	}
	for _, name := range []string{"title", "description", "url", "source", "documentation", "licenses", "version"} {
		if !strings.Contains(i.labels, "org.opencontainers.image."+name+`="`) {
			t.Errorf("it has no label %s", name)
		}
	}
	if !slices.Equal(i.ports, []string{"3128", "3129", "9128"}) || !slices.Equal(i.volumes, []string{"/data"}) {
		t.Errorf("it exposes %v, with volumes %v", i.ports, i.volumes)
	}
}
