import BrokerModel

/// A session as a sorted list knows it.
struct ListedClient {
    let position: ClientPosition
    let index: UInt32
    let key: UInt64
}

/// The best sessions of a selection when all were looked at, kept for the pages that come next: a page far down a long list need not look
/// at all of them again.
struct ClientList {
    /// Its `after` is where the list begins.
    let selection: ClientSelection
    /// The best first.
    private let clients: [ListedClient]
    /// Whether there are others behind them.
    private let hasMore: Bool
    /// How many sessions are meant in all.
    let count: Int
    /// In milliseconds on the shard's clock.
    let madeAt: UInt64

    init(_ best: BestClients, count: Int, at now: UInt64) {
        (selection, clients, hasMore) = (best.selection, best.sorted(), best.hasMore)
        (self.count, madeAt) = (count, now)
    }

    /// The rows behind a position: of the sessions that are there and meant still.
    ///
    /// - Parameter after: nil for where the list begins.
    /// - Returns: fewer than there are if the list ends before the page does.
    func page(
        after: ClientPosition?, rowsMax: Int, of sessions: borrowing SessionTable, at now: UInt64
    ) -> (rows: [ClientRow], hasMore: Bool) {
        var rows: [ClientRow] = []
        for place in (after.map(firstPlace(behind:)) ?? 0)..<clients.count {
            guard rows.count < rowsMax else { return (rows, true) }
            let client = clients[place]
            guard let session = sessions.find(index: client.index, key: client.key), selection.takes(session, now: now) else {
                continue
            }
            rows.append(ClientRow(session, at: now, client.position))
        }
        return (rows, hasMore)
    }

    /// Whether it has what another selection asks for, from where that one goes on.
    func isOf(_ other: ClientSelection) -> Bool {
        guard let place = other.after else { return false }
        var same = other
        same.after = selection.after
        guard same == selection else { return false }
        return selection.after.map { $0 == place || $0.precedes(place, isDescending: other.isDescending) } ?? true
    }

    private func firstPlace(behind position: ClientPosition) -> Int {
        var (low, high) = (0, clients.count)
        while low < high {
            let middle = (low + high) / 2
            if position.precedes(clients[middle].position, isDescending: selection.isDescending) {
                high = middle
            } else {
                low = middle + 1
            }
        }
        return low
    }
}

/// The lists that were made last, for who pages on through one of them. A first page is always looked for anew.
///
/// Invariant: at most `Limits.clientListsMax`, oldest first. They are let go when somebody asks after their time.
struct ClientLists {
    private var lists: [ClientList] = []

    mutating func add(_ list: ClientList) {
        if lists.count == Limits.clientListsMax { lists.removeFirst() }
        lists.append(list)
    }

    /// The page that a selection asks for, out of a list that is young enough.
    mutating func page(
        _ selection: ClientSelection, rowsMax: Int, of sessions: borrowing SessionTable, at now: UInt64
    ) -> (rows: [ClientRow], hasMore: Bool, count: Int)? {
        lists.removeAll { now &- $0.madeAt > Limits.clientListMilliseconds }
        for list in lists.reversed() where list.isOf(selection) {
            let page = list.page(after: selection.after, rowsMax: rowsMax, of: sessions, at: now)
            if page.rows.count == rowsMax || !page.hasMore { return (page.rows, page.hasMore, list.count) }
        }
        return nil
    }
}
