internal import JSON

/// Rows of a page on their way: as many as were asked for, or as there is room for; one at least.
struct PageRows {
    private(set) var rows: [JSONObject] = []
    private let countMax: Int
    private var bytesLeft: Int

    init(_ call: Call) {
        countMax = call.limit
        bytesLeft = call.isForNode ? Limits.nodePageBytesMax : Limits.pageBytesMax
    }

    init(countMax: Int) { (self.countMax, bytesLeft) = (countMax, Limits.pageBytesMax) }

    var count: Int { rows.count }
    var isFull: Bool { count >= countMax || bytesLeft <= 0 }

    /// Takes a row; false if there is no room for it.
    ///
    /// - Parameter bytes: what goes with it elsewhere in the answer.
    mutating func add(_ row: JSONObject, with bytes: Int = 0) -> Bool {
        let size = row.byteCount + 1 + bytes
        guard count < countMax, rows.isEmpty || size <= bytesLeft else { return false }
        bytesLeft -= size
        rows.append(row)
        return true
    }

    /// Takes rows from the front while there is room.
    mutating func fill<Row>(_ elements: some Sequence<Row>, _ write: (Row) -> JSONObject) {
        for element in elements { guard add(write(element)) else { return } }
    }
}
