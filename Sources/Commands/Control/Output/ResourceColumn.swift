internal import Administration
internal import JSON

/// A column of a table of one of the API's resources: its title, its side and its cells come from how the resource is
/// declared.
struct ResourceColumn {
    let column: TextTable.Column
    let cell: (JSONValue) -> String

    /// A column that no member has alone.
    init(_ column: TextTable.Column, _ cell: @escaping (JSONValue) -> String) { (self.column, self.cell) = (column, cell) }
}

extension ResourceDescription {
    /// The column of a member.
    ///
    /// - Parameters:
    ///   - name: the member's.
    ///   - title: in place of the declared one.
    ///   - isNumber: which side it stands on, in place of the declared one.
    ///   - nothing: what a cell says that is null.
    ///   - cell: in place of the usual one for the member's kind.
    func column(
        _ name: String, title: String? = nil, isNumber: Bool? = nil, orSay nothing: String = "-",
        _ cell: ((JSONValue) -> String)? = nil
    ) -> ResourceColumn {
        let field = self[name]
        assert(field != nil, "\(name) is no member of the resource")
        return ResourceColumn(
            TextTable.Column(title: title ?? field?.title ?? name, isNumber: isNumber ?? field?.isNumber ?? false),
            cell ?? { row in row[name] == .null ? nothing : field?.cell(row[name]) ?? row[name].cell })
    }
}

extension FieldDescription {
    /// Above its column.
    var title: String { column ?? String(name.map { $0 == "_" ? " " : $0 }).uppercased() }

    /// As people read it.
    func cell(_ value: JSONValue) -> String {
        switch kind {
        case .integer(_, .bytes): value.integer.map { Figures.bytes($0) } ?? "-"
        case .integer(_, .milliseconds): value.integer.map { Figures.duration(milliseconds: $0) } ?? "-"
        case .integer(_, .seconds): value.integer.map { Figures.duration(seconds: $0) } ?? "-"
        case .time: value.time
        default: value.cell
        }
    }
}

extension TextTable {
    /// A table of rows that are there already.
    init(_ columns: [ResourceColumn], _ rows: [JSONValue]) {
        self.init(columns.map(\.column))
        self.rows = rows.map { row in columns.map { $0.cell(row) } }
    }
}
