import RowStore

@testable import Persistence

extension StoreHome {
    /// What is wrong with the store, as the operator reads it.
    func damages() -> [String] {
        do {
            let store = try open()
            return store.load { _, _, _ in true }.map(\.description)
        } catch {
            guard case .damaged(_, let damages) = error else { return ["\(error)"] }
            return damages.map(\.description)
        }
    }

    /// Changes the database behind the broker's back.
    func execute(_ sql: String) throws {
        let connection = try SQLiteConnection(files.database, .write)
        try connection.execute(sql)
    }
}
