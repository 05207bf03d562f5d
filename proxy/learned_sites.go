package proxy

// LearnedSites are sites of which something has been learned, at most so many: those
// of this process, and those that were kept by one before it.
func (s *Server) LearnedSites(most int) []string {
	var sites []string
	if s.memory != nil {
		s.memory.mu.Lock()
		for site := range s.memory.recalled[kindOfRoutes] {
			if len(sites) == most {
				break
			}
			sites = append(sites, site)
		}
		s.memory.mu.Unlock()
	}
	for i := range s.books.shards {
		shard := &s.books.shards[i]
		shard.mu.Lock()
		if shard.known != nil {
			for _, site := range shard.known.Keys() {
				if len(sites) < most {
					sites = append(sites, site)
				}
			}
		}
		shard.mu.Unlock()
	}
	return sites
}
