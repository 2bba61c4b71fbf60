package graph

// Folder is a directory that is being written, of parts of a graph and what describes them. It appears under
// its name only when it is complete and on disk. The first error stays: every later step does nothing and
// returns it.
type Folder struct{ s *staging }

// CreateFolder begins the directory of that name, a path below the directory within on which no symbolic link
// is followed. What is there under that name stays until Commit puts the new one in its place.
func CreateFolder(within, name string) (*Folder, error) {
	s, err := stageOver(within, name)
	if err != nil {
		return nil, err
	}
	return &Folder{s}, nil
}

// AddInt32s writes an array of one dimension.
func (f *Folder) AddInt32s(file string, values []int32) error {
	save(f.s, file, values, len(values))
	return f.s.failure()
}

// AddJSON writes a value as JSON.
func (f *Folder) AddJSON(file string, value any) error {
	f.s.json(file, value)
	return f.s.failure()
}

// Commit brings everything to disk and gives the directory its name.
func (f *Folder) Commit() error {
	f.s.publish()
	return f.s.failure()
}

// Abort removes what was written. After Commit it does nothing, so it can be deferred.
func (f *Folder) Abort() error { return f.s.abort() }
