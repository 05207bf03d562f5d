package sites

// Names translates keys of the queue's resources to names that are the same in every
// process.
type Names interface {
	// Stable is the name of a resource's key at a site.
	Stable(site, key string) string
	// Local is the reverse: the keys of a name in this process, for the resources of a
	// limit. There are none for a token that this process does not have.
	Local(site, limit, name string) []string
	// Lasting tells whether a key has a meaning in other processes.
	Lasting(key string) bool
}

// The names of the queue's resources. A learned limit has an ID in its process, which
// changes with a restart, and a name that is the same in every instance of a fleet. The
// queue's resources have the ID.
const (
	// learnedPrefix begins the names of resources that are learned limits.
	learnedPrefix = "learned "
	// FirstRequest is the resource that lets the first request of a route go alone.
	FirstRequest = "first "
	// SlowStart is the resource that lets few requests go at once to a site that has
	// answered few.
	SlowStart = "slow start "
)
