package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/sirupsen/logrus"

	"github.com/abide-proxy/abide/internal/signal"
	"github.com/abide-proxy/abide/policy"
)

// quietTime is the time that a configuration file must not have changed before it is read:
// editors and Kubernetes change files in several steps.
const quietTime = 100 * time.Millisecond

// watch notices that a file, or a file in a directory, may have changed. It watches
// directories, not the file: editors replace a file, and Kubernetes replaces the ..data link
// in a mounted file's path.
type watch struct {
	path    string
	events  *fsnotify.Watcher
	watched map[string]bool // directories
	names   map[string]bool // the paths in these directories that matter
	inside  string          // a directory in which every path matters; "" if it is a file
}

// maxLinks bounds the symbolic links that are followed, as the kernel does.
const maxLinks = 40

// newWatch watches from now on; run must follow.
func newWatch(path string) (*watch, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	w := &watch{path: path, events: events, watched: map[string]bool{}}
	if err := w.place(); err != nil {
		events.Close()
		return nil, err
	}
	return w, nil
}

// watchFile watches a file or directory in a goroutine of running until ctx is done, and sends
// changed after each change. It returns false, and warns, if the path cannot be watched.
func watchFile(ctx context.Context, path string, log *logrus.Logger, changed signal.Signal, running *sync.WaitGroup) bool {
	w, err := newWatch(path)
	if err != nil {
		log.WithFields(logrus.Fields{"path": path, "reason": err}).Warnf("%s is not watched for changes (%v); SIGHUP and POST /api/v1/reload still have it read again", path, err)
		return false
	}
	running.Go(func() { w.run(ctx, quietTime, changed.Send) })
	return true
}

// run calls changed after each change, once the file has not changed for settle, or has kept
// changing for ten times that.
func (w *watch) run(ctx context.Context, settle time.Duration, changed func()) {
	defer w.events.Close()
	rest := time.NewTimer(settle)
	rest.Stop()
	var first time.Time // time of the first change that was not reported; zero: none
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-w.events.Events:
			if !ok {
				return
			}
			matters := w.names[e.Name] || w.inside != "" && filepath.Dir(e.Name) == w.inside
			if !matters || e.Op == fsnotify.Chmod && first.IsZero() {
				continue
			}
			if first.IsZero() {
				first = time.Now()
			}
			if time.Since(first) < 10*settle {
				rest.Reset(settle)
			}
		case _, ok := <-w.events.Errors:
			if !ok {
				return
			}
			// Events were lost, so any file may have changed.
			first = time.Now()
			rest.Reset(settle)
		case <-rest.C:
			first = time.Time{}
			// A link may have another target now. A directory that was removed stays
			// unwatched; the directory above reports when it comes back.
			_ = w.place()
			changed()
		}
	}
}

// maxPlaceAttempts bounds the attempts to follow a path while its links change.
const maxPlaceAttempts = 20

// place watches every directory in which a change can make the path lead to another file,
// and no other. A link may be replaced while the path is followed; the path is then followed
// again.
func (w *watch) place() error {
	err := w.placeOnce()
	for n := 1; n < maxPlaceAttempts && errors.Is(err, fs.ErrNotExist); n++ {
		err = w.placeOnce()
	}
	return err
}

func (w *watch) placeOnce() error {
	names := components(w.path)
	dirs := map[string]bool{}
	for name := range names {
		dirs[filepath.Dir(name)] = true
	}
	w.names, w.inside = names, ""
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		if w.inside, err = filepath.EvalSymlinks(w.path); err == nil {
			dirs[w.inside] = true
		}
	}
	var failed error
	for dir := range dirs {
		// Also for a directory that is already watched: it may be another directory
		// of the same name, and watching the same one twice costs nothing.
		if err := w.events.Add(dir); err != nil {
			failed = err
			continue
		}
		w.watched[dir] = true
	}
	for dir := range w.watched {
		if !dirs[dir] {
			_ = w.events.Remove(dir) // the directory may have been removed
			delete(w.watched, dir)
		}
	}
	return failed
}

// components are the file that a path leads to and every symbolic link on the way, each by a
// path without links.
func components(path string) map[string]bool {
	found := map[string]bool{}
	root := filepath.VolumeName(path) + string(filepath.Separator)
	at, rest := root, split(path[len(root):])
	for links := 0; len(rest) > 0; {
		next := filepath.Join(at, rest[0])
		info, err := os.Lstat(next)
		switch {
		case err != nil: // the path begins to exist by a change in this directory
			found[next] = true
			return found
		case info.Mode()&os.ModeSymlink != 0:
			found[next] = true
			to, err := os.Readlink(next)
			if links++; err != nil || links > maxLinks {
				return found
			}
			if filepath.IsAbs(to) {
				root = filepath.VolumeName(to) + string(filepath.Separator)
				at, to = root, to[len(root):]
			}
			rest = append(split(to), rest[1:]...)
		default:
			if len(rest) == 1 {
				found[next] = true
			}
			at, rest = next, rest[1:]
		}
	}
	return found
}

func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return os.IsPathSeparator(uint8(r)) })
}

// tokenWatches watch the files and directories that tokens come from, and the certificates of
// listeners, so that what is new there is used without a restart.
type tokenWatches struct {
	ctx     context.Context
	log     *logrus.Logger
	changed signal.Signal
	running map[string]context.CancelFunc // :: path → end of its watch
	ends    sync.WaitGroup
}

// follow watches the files that a policy names, and stops watching others.
func (t *tokenWatches) follow(p *policy.Policy) {
	named, paths := map[string]bool{}, []string{p.TLS.Cert, p.TLS.Key, p.Admin.TLS.Cert, p.Admin.TLS.Key}
	for i := range p.Pools {
		paths = append(paths, p.Pools[i].File, p.Pools[i].Dir)
	}
	for _, path := range paths {
		if path != "" {
			named[path] = true
		}
	}
	for path, end := range t.running {
		if !named[path] {
			end()
			delete(t.running, path)
		}
	}
	for path := range named {
		if t.running[path] == nil {
			ctx, end := context.WithCancel(t.ctx)
			t.running[path] = end
			watchFile(ctx, path, t.log, t.changed, &t.ends)
		}
	}
}

// close ends all watches.
func (t *tokenWatches) close() {
	for _, end := range t.running {
		end()
	}
	t.ends.Wait()
}
