package main

import (
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// lookEvery is the least time between two looks at files that may change.
	lookEvery = 250 * time.Millisecond
	// lookShare is the part of the time that looks may take, as with thousands of files of tokens: one in so many.
	lookShare = 100
	// mostRestless bounds the looks in a row that find another change, before that is told.
	mostRestless = 10
)

// watch notices changes of files, and of files in directories. It looks at them from time to time: a system tells
// nothing of a network's files, and of others only who follows each link on the way, as Kubernetes replaces them.
// The zero value has seen nothing.
type watch struct {
	paths    []string
	seen     []os.FileInfo // at the last look, of what the paths lead to; nil: nothing
	restless int           // looks in a row that have found a change that was not told
}

// changed looks at the paths. It tells whether they have changed, once they are as at the look before: editors
// and Kubernetes change files in several steps. Of paths that are new it tells nothing.
func (w *watch) changed(paths []string) bool {
	before := w.seen
	w.seen = nil
	for _, path := range paths {
		info, err := os.Stat(path)
		w.seen = append(w.seen, info)
		if err != nil || !info.IsDir() {
			continue
		}
		entries, _ := os.ReadDir(path) // who reads the files reports what is wrong
		for _, one := range entries {
			info, _ := os.Stat(filepath.Join(path, one.Name()))
			w.seen = append(w.seen, info)
		}
	}
	if !slices.Equal(w.paths, paths) {
		w.paths, w.restless = paths, 0
		return false
	}
	rests := slices.EqualFunc(before, w.seen, func(a, b os.FileInfo) bool {
		return a == nil && b == nil || a != nil && b != nil && os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
	if !rests {
		w.restless++
	}
	told := rests && w.restless > 0 || w.restless >= mostRestless
	if told {
		w.restless = 0
	}
	return told
}
