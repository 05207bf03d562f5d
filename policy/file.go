package policy

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// pipePatience is the time that the writer of a pipe has to write into it.
const pipePatience = 5 * time.Second

// ReadFile reads at most so many bytes of a file. It never waits for ever: not for
// somebody who opens the other end of a pipe, nor for what a device has to say.
func ReadFile(path string, most int64) ([]byte, error) {
	over := time.Now().Add(pipePatience)
	for {
		data, mode, err := readNow(path, most, over)
		if err != nil || len(data) > 0 || mode&fs.ModeNamedPipe == 0 {
			return data, err
		}
		if !time.Now().Before(over) {
			return nil, errNobodyWrites
		}
		timer := time.NewTimer(pipePatience / 100) // a writer may be about to open it
		<-timer.C
	}
}

var errNobodyWrites = fmt.Errorf("it is a pipe, and nobody has written into it for %v", pipePatience)

func readNow(path string, most int64, over time.Time) ([]byte, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, 0, err
	}
	_ = f.SetReadDeadline(over) // a regular file has none, and needs none
	data, err := io.ReadAll(io.LimitReader(f, most))
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && info.Mode()&fs.ModeNamedPipe != 0:
		return nil, 0, errNobodyWrites
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, syscall.EAGAIN):
		return nil, 0, errors.New("it is a device, and has nothing to read")
	}
	return data, info.Mode(), err
}
