package store

import (
	"encoding/json"
	"os"
	"time"
)

// processInfo is the content of a process's own file.
type processInfo struct {
	ID    string    `json:"id,omitempty"`
	Name  string    `json:"name,omitempty"`
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

func (s processInfo) encode() []byte {
	text, err := json.Marshal(s)
	if err != nil {
		return nil // a time that JSON cannot encode
	}
	return append(text, '\n')
}

// writeInfo writes the owner into its file. On a full disk that fails, and the lock still
// works.
func writeInfo(f *os.File, who processInfo) {
	if text := who.encode(); f.Truncate(0) == nil {
		_, _ = f.WriteAt(text, 0)
	}
}

// readInfo reads a process's own file.
func readInfo(name string) (s processInfo, err error) {
	f, err := os.OpenFile(name, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return s, err
	}
	defer f.Close()
	text := make([]byte, 1024)
	n, _ := f.ReadAt(text, 0)
	return s, json.Unmarshal(text[:n], &s)
}

// isSameFile tells whether an open file is the file with that name.
func isSameFile(f *os.File, name string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(name)
	return err == nil && os.SameFile(mine, there)
}
