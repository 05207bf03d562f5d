package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"slices"
	"strings"
	"time"
)

// file is one file of an archive.
type file struct {
	name    string // with slashes
	mode    int64
	content []byte
}

// tarball is a tar.gz with the files and the directories that they are in, sorted
// by name, all of root and of one time.
func tarball(files []file, at time.Time) ([]byte, error) {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	written := map[string]bool{} // directories that are in the archive
	for _, one := range files {
		for _, dir := range parents(one.name) {
			if written[dir] {
				continue
			}
			written[dir] = true
			header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatGNU}
			if err := archive.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: one.name, Mode: one.mode, Size: int64(len(one.content)), ModTime: at, Uname: "root", Gname: "root", Format: tar.FormatGNU}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(one.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	if err := zipped.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// parents are the directories of a file, the outermost first.
func parents(name string) []string {
	var all []string
	for i, letter := range name {
		if letter == '/' {
			all = append(all, name[:i])
		}
	}
	return all
}
