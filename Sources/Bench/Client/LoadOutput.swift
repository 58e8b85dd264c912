import Bytes

/// Bytes on their way out: our own, and between them payload that is sent from where it lies.
///
/// ```
///   own   ┌ head ┐┌ head ┐┌ rest ┐         runs: (own bytes, then payload), in order
///   sent  head payload head payload rest
/// ```
/// Invariant: `start <= end <= capacity`; the own bytes of all runs and `loose` add up to `end - start`. Whoever lends
/// payload keeps it where it is until it is consumed.
struct LoadOutput: ~Copyable {
    private struct Run {
        var ownCount: Int
        var payload: UnsafeRawPointer
        var payloadCount: Int
    }

    private var base: UnsafeMutableRawPointer?
    private var capacity = 0
    private var start = 0
    private var end = 0
    /// Own bytes behind the last run.
    private var loose = 0
    private var runs: [Run] = []
    private var firstRun = 0
    private var payloadBytes = 0

    deinit { base?.deallocate() }

    /// How many bytes wait.
    @inline(__always)
    var count: Int { end &- start &+ payloadBytes }

    /// Makes room for `count` own bytes and says where; they count as appended.
    @inline(__always)
    mutating func append(_ count: Int) -> UnsafeMutableRawPointer {
        if start == end { (start, end) = (0, 0) }
        if end &+ count > capacity || base == nil { makeRoom(for: count) }
        // Just made, if it was not there.
        let place = base.unsafelyUnwrapped + end
        end &+= count
        loose &+= count
        return place
    }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        guard let source = bytes.baseAddress else { return }
        append(bytes.count).copyMemory(from: source, byteCount: bytes.count)
    }

    /// Lends payload, to be sent behind what was appended so far.
    mutating func lend(_ payload: UnsafeRawPointer, count: Int) {
        runs.append(Run(ownCount: loose, payload: payload, payloadCount: count))
        loose = 0
        payloadBytes &+= count
    }

    /// Fills `slices` from the front of what waits; returns how many.
    func gather(into slices: UnsafeMutableBufferPointer<ByteSlice>) -> Int {
        guard let base else { return 0 }
        var position = start
        var filled = 0
        for index in firstRun..<runs.count {
            guard filled &+ 2 <= slices.count else { return filled }
            let run = runs[index]
            if run.ownCount > 0 {
                slices[filled] = ByteSlice(base: UnsafeRawPointer(base + position), count: run.ownCount)
                filled &+= 1
                position &+= run.ownCount
            }
            slices[filled] = ByteSlice(base: run.payload, count: run.payloadCount)
            filled &+= 1
        }
        if loose > 0, filled < slices.count {
            slices[filled] = ByteSlice(base: UnsafeRawPointer(base + position), count: loose)
            filled &+= 1
        }
        return filled
    }

    /// Forgets what was sent. `count` is at most what waited.
    mutating func consume(_ count: Int) {
        precondition(count <= self.count, "more was sent than waited")
        var rest = count
        while firstRun < runs.count, rest > 0 { consumeRun(&rest) }
        start &+= rest
        loose &-= rest
        if firstRun == runs.count, firstRun > 0 {
            runs.removeAll(keepingCapacity: true)
            firstRun = 0
        }
        if start == end { (start, end) = (0, 0) }
    }

    private mutating func consumeRun(_ rest: inout Int) {
        let own = min(rest, runs[firstRun].ownCount)
        runs[firstRun].ownCount &-= own
        start &+= own
        rest &-= own
        guard runs[firstRun].ownCount == 0 else { return }
        let sent = min(rest, runs[firstRun].payloadCount)
        runs[firstRun].payload += sent
        runs[firstRun].payloadCount &-= sent
        payloadBytes &-= sent
        rest &-= sent
        if runs[firstRun].payloadCount == 0 { firstRun &+= 1 }
    }

    /// Gives the memory back when nothing waits: an idle connection holds none.
    mutating func releaseMemory() {
        guard count == 0 else { return }
        base?.deallocate()
        base = nil
        capacity = 0
        runs = []
    }

    private mutating func makeRoom(for count: Int) {
        let waiting = end - start
        if waiting + count <= capacity, let base {
            memmoveDown(base, waiting)
            return
        }
        capacity = max(512, capacity * 2, waiting + count)
        let grown = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 16)
        if let base {
            grown.copyMemory(from: base + start, byteCount: waiting)
            base.deallocate()
        }
        base = grown
        (start, end) = (0, waiting)
    }

    private mutating func memmoveDown(_ base: UnsafeMutableRawPointer, _ waiting: Int) {
        // copyMemory allows regions that overlap.
        base.copyMemory(from: base + start, byteCount: waiting)
        (start, end) = (0, waiting)
    }
}
