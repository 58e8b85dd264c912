/// The scans of retained messages that are under way on a shard, by the session that they are for.
///
/// Finding, adding and removing a session's are O(1), whatever others have; a turn looks at each session once.
struct ScanTable {
    private(set) var sessions: [SessionScans] = []
    private var places: [UInt64: Int] = [:]
    private var lastNumber: UInt64 = 0
    /// Whose turn is next.
    var next = 0
    /// Whether a scan stopped only because its steps for the turn were used up.
    var hasReadyScan = false
    /// How many sessions, scans and queries were looked at so far: tests see by it how the work grows.
    var visitCount = 0

    var isEmpty: Bool { sessions.isEmpty }

    subscript(place: Int) -> SessionScans {
        _read { yield sessions[place] }
        _modify { yield &sessions[place] }
    }

    /// Where a session stands, or nil.
    func place(of sessionKey: UInt64) -> Int? { places.isEmpty ? nil : places[sessionKey] }

    /// Where the session of a query stands; makes room for it.
    mutating func makePlace(for query: RetainedQuery) -> Int {
        if let known = places[query.sessionKey] { return known }
        sessions.append(SessionScans(of: query))
        places[query.sessionKey] = sessions.count - 1
        return sessions.count - 1
    }

    /// Adds a scan for the session at `place`.
    mutating func open(_ query: RetainedQuery, _ scan: RetainedScan, at place: Int) {
        lastNumber += 1
        sessions[place].scans.append(OpenScan(number: lastNumber, query: query, scan: scan))
        sessions[place].isStuck = false
        hasReadyScan = true
    }

    mutating func grant(_ number: UInt64, of sessionKey: UInt64, _ count: Int) {
        guard let place = place(of: sessionKey),
            let position = sessions[place].scans.firstIndex(where: { $0.number == number })
        else { return }
        sessions[place].scans[position].grant(count)
        sessions[place].isStuck = false
        hasReadyScan = true
    }

    /// Forgets the session at `place`; the last one takes its place.
    @discardableResult
    mutating func remove(at place: Int) -> SessionScans {
        let removed = sessions[place]
        places[removed.sessionKey] = nil
        let last = sessions.removeLast()
        if place < sessions.count {
            sessions[place] = last
            places[last.sessionKey] = place
        }
        return removed
    }
}
