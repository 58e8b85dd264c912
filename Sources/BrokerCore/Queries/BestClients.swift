import BrokerModel

/// The first sessions in an order behind some position, of those that were looked at so far.
///
/// A heap whose top is the worst of them: a session that is no better costs one comparison, and none is copied before the end.
struct BestClients {
    let selection: ClientSelection
    private let max: Int
    private var heap: [ListedClient] = []
    /// Whether there are others behind `after` than those that are kept.
    private(set) var hasMore = false

    /// - Parameter max: how many are kept.
    init(_ selection: ClientSelection, max: Int) {
        (self.selection, self.max) = (selection, max)
    }

    /// Takes a session in that is meant, if it is one of the best. O(log max).
    ///
    /// - Returns: whether it is.
    mutating func add(_ session: Session, now: UInt64) -> Bool {
        let position = selection.position(of: session, now: now)
        if let after = selection.after, !precedes(after, position) { return false }
        let client = ListedClient(position: position, index: session.index, key: session.key)
        if heap.count < max {
            heap.append(client)
            rise(heap.count - 1)
        } else {
            hasMore = true
            guard precedes(position, heap[0].position) else { return false }
            heap[0] = client
            sink(0)
        }
        return true
    }

    /// The best first.
    func sorted() -> [ListedClient] { heap.sorted { precedes($0.position, $1.position) } }

    private func precedes(_ left: ClientPosition, _ right: ClientPosition) -> Bool {
        left.precedes(right, isDescending: selection.isDescending)
    }

    private mutating func rise(_ start: Int) {
        var place = start
        while place > 0, precedes(heap[(place - 1) / 2].position, heap[place].position) {
            heap.swapAt(place, (place - 1) / 2)
            place = (place - 1) / 2
        }
    }

    private mutating func sink(_ start: Int) {
        var place = start
        while true {
            var worst = place
            for child in [2 * place + 1, 2 * place + 2] where child < heap.count {
                if precedes(heap[worst].position, heap[child].position) { worst = child }
            }
            guard worst != place else { return }
            heap.swapAt(place, worst)
            place = worst
        }
    }
}
