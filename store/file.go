package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// File is a store in one file on this machine, which several processes may use at the
// same time. What Exchange, Put or Record have answered without an error outlives
// kill -9 and a loss of power. It is safe for concurrent use.
//
// When the disk fails, whoever writes gets the error at once, Health says why, and the
// file is tried again with the next write, at most once a second. What came after the
// last success counts as lost then: the file is opened anew before anything is
// believed to be saved.
type File struct {
	path  string
	o     FileOptions
	lock  *fileLock            // only the committer changes it
	ever  atomic.Bool          // it was open to be written
	info  os.FileInfo          // of the file that was opened last; the committer's
	probe *os.File             // of the same, see keepOpen; the committer's
	disk  atomic.Pointer[disk] // nil while there is none; only the committer changes it

	mu       sync.Mutex
	pending  []*work
	running  bool // a committer is at work
	closed   bool
	trouble  Health
	findings []Finding
	damage   Damage
	members  map[string]Member
	done     sync.WaitGroup // the committer

	crowd   crowd
	version atomic.Uint64 // of the documents
	known   instances     // of this life of the process; the committer's
	chores  chores        // the committer's
}

// FileOptions is how a File behaves. The zero value is what most want.
type FileOptions struct {
	Now    func() time.Time                 // nil: that of the machine
	Strict bool                             // refuse a file that cannot be used, instead of setting it aside
	Log    func(format string, args ...any) // nil: nobody is told; see Findings
	Counts int                              // how many Count budgets are kept, those used last; 0: 200,000
	Most   map[string]int                   // how many documents of a kind are kept, those that count for longest; a kind that is not there has no bound
	Roll   Retention                        // of the traffic; zero values: 48 hours, 60 days, 5 years

	// Instance is the Batch.Instance of this process, of letters and digits, and Name is
	// what people call the process; "": a name is made up.
	Instance, Name string

	migrations []string                // instead of the real ones
	pragmas    func() []string         // said to each new connection
	careless   bool                    // a loss of power may lose what was answered
	fault      func(step string) error // an error that happens at that step
}

// Finding is something about the file that its owner should know.
type Finding struct {
	Time time.Time
	Text string
}

// Health says what is wrong with the file. The zero value is that nothing is.
type Health struct {
	Since time.Time // since when nothing can be written
	Tried time.Time // the last time that it was tried
	Err   error     // why it failed then
}

// Damage is what was set aside since the process began, because it was damaged: the file,
// or single rows of it. The zero value is nothing.
type Damage struct {
	At    time.Time // when something was found last
	File  string    // the path under which the last file is that was set aside; "": none was
	Why   string    // it was
	Files int       // that were set aside
	Rows  int       // that were set aside within a file
}

// again is how long after a failure the file is tried anew.
const again = time.Second

// OpenFile opens the file at path, or makes it, and its directory. A file that cannot
// be used is moved aside and a new one made, which Findings and Log say, unless it is
// to be strict. Where nothing can be written, what is kept is read as far as it can be,
// and Health says why, unless it is to be strict. The error says what to do about it.
func OpenFile(ctx context.Context, path string, o FileOptions) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.Counts <= 0 {
		o.Counts = 200_000
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	o.Roll = o.Roll.orDefault()
	path, err := settle(path)
	if !plainID(o.Instance) {
		o.Instance = rand.Text()
	}
	host, _ := os.Hostname()
	who := signature{ID: o.Instance, Name: o.Name, PID: os.Getpid(), Host: host, Since: o.Now()}
	f := &File{path: path, o: o, lock: &fileLock{path: path, who: who}, members: map[string]Member{}}
	if err == nil {
		err = f.begin(ctx)
	}
	if unwritable(err) && !o.Strict {
		err = f.beginUnwritten(ctx, err)
	}
	if err != nil {
		f.keepOpen(nil)
		f.lock.release()
		return nil, advise(path, err)
	}
	return f, nil
}

func (f *File) begin(ctx context.Context) error {
	if err := f.fail("lock"); err != nil {
		return err
	}
	lock, leave, err := lockFile(ctx, f.path, f.lock.who)
	if err != nil {
		return err
	}
	defer leave()
	f.lock = lock
	return f.connect(ctx)
}

// settle makes the directory, and answers the path in it without symbolic links, so
// that all who mean one file agree on its lock.
func settle(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return path, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return path, err
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return path, err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// Close saves what is under way and gives the file free.
func (f *File) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.mu.Unlock()
	f.done.Wait()
	var err error
	if d := f.disk.Swap(nil); d != nil {
		// That somebody still reads is no loss: the log stays, and is read when it is
		// opened. Other processes that use the file need it.
		if !d.readOnly && len(f.others()) == 0 {
			if err = d.checkpoint(); errors.Is(err, errReading) {
				err = nil
			}
		}
		err = errors.Join(err, d.close())
	}
	f.keepOpen(nil)
	f.lock.release()
	if err != nil {
		return advise(f.path, err)
	}
	return nil
}

// Health says what is wrong.
func (f *File) Health() Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trouble
}

// Damage says what was set aside.
func (f *File) Damage() Damage {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.damage
}

// Findings are what its owner should know about the file: the last hundred.
func (f *File) Findings() []Finding {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Finding(nil), f.findings...)
}

func (f *File) find(format string, args ...any) {
	f.o.Log(format, args...)
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.findings) == 100 {
		f.findings = f.findings[1:]
	}
	f.findings = append(f.findings, Finding{f.o.Now(), fmt.Sprintf(format, args...)})
}

// others are the other processes that use the file.
func (f *File) others() []signature { return f.crowd.look(f.path, f.o.Instance, time.Now()) }

// Several tells whether other processes use the file, too.
func (f *File) Several() bool { return len(f.others()) > 0 }

// Path is where the file is.
func (f *File) Path() string { return f.path }
