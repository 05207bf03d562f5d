package store

import "time"

// FileOptions configure a File. The zero value has usual defaults.
type FileOptions struct {
	Now    func() time.Time                 // nil: the machine's clock
	Strict bool                             // refuse an unusable file instead of moving it aside
	Log    func(format string, args ...any) // nil: no log; see Findings
	Counts int                              // maximum number of Count budgets, the last used are kept; 0: 200,000
	Most   map[string]int                   // :: kind → maximum number of documents, those that expire last are kept; a missing kind has no bound
	Roll   Retention                        // of traffic; zero values: 48 hours, 60 days, 5 years

	// Instance is the Batch.Instance of this process, of letters and digits, and Name its
	// name for operators; "": generated.
	Instance, Name string

	migrations []string                // replaces the real migrations, in tests
	pragmas    func() []string         // run on each new connection
	noSync     bool                    // a loss of power may lose saved data; for tests
	fault      func(step string) error // error to inject at a step; for tests
}
