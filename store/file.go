package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/abide-proxy/abide/status"
)

// FileOptions configure a File. The zero value has usual defaults.
type FileOptions struct {
	Now    func() time.Time                 // nil: the machine's clock
	Strict bool                             // refuse an unusable file instead of moving it aside
	Log    func(format string, args ...any) // nil: no log; see Damage
	Counts int                              // maximum number of Count budgets, the last used are stored; 0: 200,000
	Most   map[string]int                   // :: kind → maximum number of documents, those that expire last are stored; a missing kind has no bound
	Roll   Retention                        // of traffic; zero: 48 hours, 60 days, 5 years

	// Instance is the Batch.Instance of this process, of letters and digits, and Name its
	// name for operators; "": generated.
	Instance, Name string

	migrations []string                // replaces the real migrations, in tests
	pragmas    func() []string         // run on each new connection, in tests
	fault      func(step string) error // error to inject at a step; for tests
}

// File is a store in one file on this machine, which several processes may use at the same
// time. Data survives kill -9 and a loss of power once Exchange, Put or Record has returned
// without an error. It is safe for concurrent use.
//
// When the disk fails, writers get the error at once, Health returns it, and the next write
// tries again, at most once a second. Everything after the last success counts as lost: the
// file is opened again before further data counts as saved.
type File struct {
	path             string
	o                FileOptions
	log              *fileLog
	openedForWriting atomic.Bool              // the file was opened for writing at some time
	disk             atomic.Pointer[database] // nil while the file is not open

	// The goroutine that commits and opens the file alone uses these.
	lock        *fileLock
	info        os.FileInfo // of the file that was opened last
	probe       *os.File    // the same file, see setProbe
	lastChecked time.Time   // when the file was last checked for existence
	maybeLost   bool        // data of this generation may be lost
	budgets     budgets
	maintenance maintenance

	mu      sync.Mutex
	pending []*writeRequest
	running bool // a goroutine commits
	closed  bool
	health  Health
	done    sync.WaitGroup // waits for that goroutine
}

// OpenFile opens the file at path, or creates it and its directory. An unusable file is
// moved aside and a new one is created, which Damage and Log report, unless o.Strict is
// set. If the file cannot be written, it is read as far as possible and Health reports why,
// unless o.Strict is set. The error says what to do.
func OpenFile(ctx context.Context, path string, o FileOptions) (*File, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = func(string, ...any) {}
	}
	if o.pragmas == nil {
		o.pragmas = func() []string { return nil }
	}
	if o.migrations == nil {
		o.migrations = migrations
	}
	o.Counts, o.Roll = cmp.Or(o.Counts, 200_000), cmp.Or(o.Roll, usualRetention)
	path, err := prepareDir(path)
	if !plainID(o.Instance) {
		o.Instance = rand.Text()
	}
	host, _ := os.Hostname()
	who := processInfo{ID: o.Instance, Name: o.Name, PID: os.Getpid(), Host: host}
	log := &fileLog{path: path, now: o.Now, logf: o.Log}
	f := &File{
		path: path, o: o, log: log, lock: &fileLock{path: path, self: who},
		maintenance: maintenance{path: path, o: o, log: log}, budgets: budgets{path, o.Instance, log},
	}
	if err == nil {
		var leave func()
		if leave, err = f.begin(ctx); err == nil {
			leave()
		}
	}
	if isUnwritable(err) && !o.Strict {
		err = f.openReadOnly(ctx, err)
	}
	if err != nil {
		f.setProbe(nil)
		f.lock.release()
		return nil, advise(path, err)
	}
	return f, nil
}

// Close saves pending writes and releases the file.
func (f *File) Close() error {
	f.mu.Lock()
	was := f.closed
	f.closed = true
	f.mu.Unlock()
	if was {
		return nil
	}
	f.done.Wait()
	var err error
	if d := f.disk.Swap(nil); d != nil {
		// Readers may still use the log: it stays and is read at the next open. Other
		// processes need it.
		if !d.readOnly && len(f.others()) == 0 {
			if err = d.checkpoint(); errors.Is(err, errReading) {
				err = nil
			}
		}
		err = errors.Join(err, d.close())
	}
	f.setProbe(nil)
	f.lock.release()
	if err != nil {
		return advise(f.path, err)
	}
	return nil
}

// Health returns the state of writing.
func (f *File) Health() Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

// Several tells whether other processes use the file.
func (f *File) Several() bool { return len(f.others()) > 0 }

// Damage returns the files and rows that were moved aside.
func (f *File) Damage() status.Damage { return f.log.damaged() }

// Path returns the file's path.
func (f *File) Path() string { return f.path }
