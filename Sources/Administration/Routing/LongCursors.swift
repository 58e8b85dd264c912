internal import Platform

/// Where lists go on whose next page begins behind a name that is too long for a request's first line: clients and
/// levels of topics may have names of 64 KiB. What goes out in its place is a hash, and what that stands for is
/// remembered.
///
/// Invariant: at most `Limits.longCursorsMax`; the one that was asked for longest ago goes for the next one. Its list
/// has to be begun anew.
struct LongCursors {
    private var cursors: [(short: String, whole: String)] = []

    /// What stands for a cursor: itself, unless it is too long.
    mutating func short(_ whole: String) -> String {
        guard whole.utf8.count > Limits.cursorBytesMax else { return whole }
        let short = Self.mark + Base64URL.encode(HashFunction.sha256.digest(Array(whole.utf8)))
        cursors.removeAll { $0.short == short }
        if cursors.count >= Limits.longCursorsMax { cursors.removeFirst() }
        cursors.append((short, whole))
        return short
    }

    /// The cursor that something stands for; nil if it is forgotten.
    func whole(_ short: String) -> String? {
        short.hasPrefix(Self.mark) ? cursors.last { $0.short == short }?.whole : short
    }

    /// None of the characters of base64url.
    private static let mark = "~"
}

extension Limits {
    /// Characters of a cursor: a longer one is kept here, and a short one stands for it.
    static let cursorBytesMax = 1024

    /// Cursors that are kept, of up to 90 KB each: the oldest goes for the next one. Bytes: 90 KB each at most.
    static let longCursorsMax = 64
}
