internal import Bytes

/// Makes runs of bytes as long as TLS records, so that a flush of many small messages costs one record and not one for each.
enum RecordGathering {
    /// Calls `body` with each record in turn, until it answers false; returns whether it never did.
    ///
    /// A run that fills records by itself is passed on as it lies; smaller ones are copied together, up to 16 KiB.
    static func forEachRecord(
        of slices: UnsafeBufferPointer<ByteSlice>, _ body: (UnsafeRawBufferPointer) -> Bool
    ) -> Bool {
        if slices.count == 1 { return forEachPart(of: slices[0], body) }
        var total = 0
        for slice in slices { total &+= slice.count }
        return withUnsafeTemporaryAllocation(byteCount: min(total, Limits.tlsRecordBytesMax), alignment: 64) { stage in
            guard let base = stage.baseAddress else { return true }
            var filled = 0
            for var slice in slices {
                while slice.count > 0 {
                    let taken = min(slice.count, stage.count &- filled)
                    (base + filled).copyMemory(from: slice.base, byteCount: taken)
                    filled &+= taken
                    slice.base += taken
                    slice.count &-= taken
                    guard filled == stage.count else { continue }
                    guard body(UnsafeRawBufferPointer(stage)) else { return false }
                    filled = 0
                }
            }
            return filled == 0 || body(UnsafeRawBufferPointer(rebasing: stage[..<filled]))
        }
    }

    private static func forEachPart(of slice: ByteSlice, _ body: (UnsafeRawBufferPointer) -> Bool) -> Bool {
        var offset = 0
        while offset < slice.count {
            let count = min(slice.count - offset, Limits.tlsRecordBytesMax)
            guard body(UnsafeRawBufferPointer(start: slice.base + offset, count: count)) else { return false }
            offset += count
        }
        return true
    }
}
