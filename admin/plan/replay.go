package plan

import "time"

// replaySource is the requests of one crawler of a log.
type replaySource struct {
	log   *Log
	at    int32 // the next request; -1: none
	alone bool  // no other follows the first
	begun bool
}

func (s *replaySource) next() (r request, pause time.Duration, more bool) {
	if s.at < 0 {
		return request{}, 0, false
	}
	record := &s.log.records[s.at]
	if s.begun {
		pause = record.pause
	}
	s.begun, s.at = true, record.next
	if s.alone {
		s.at = -1
	}
	return request{
		place: &s.log.places[record.place], method: s.log.methods[record.method], priority: int(record.priority),
		latency: record.latency, bytes: record.bytes,
	}, pause, true
}

// beginReplay has the first request of each crawler of the log come when it came.
func (s *simulation) beginReplay() {
	log := s.scenario.Log
	for i := range log.records {
		if r := &log.records[i]; r.first {
			crawler := s.newCrawler(log.clients[r.client], &replaySource{log: log, at: int32(i)})
			crawler.later(r.began, crawler.next)
		}
	}
}

// replayAt has a request of the log come when it came, and then those after it.
func (s *simulation) replayAt(i int) {
	log := s.scenario.Log
	if i == len(log.records) {
		return
	}
	r := &log.records[i]
	s.clock.AfterFunc(s.scenario.Start.Add(r.began).Sub(s.clock.Now()), func() {
		s.newCrawler(log.clients[r.client], &replaySource{log: log, at: int32(i), alone: true}).next()
		s.replayAt(i + 1)
	})
}
