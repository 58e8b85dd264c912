internal import JSON

/// Lists, a page at a time.
extension Administration {
    /// Answers with rows as all lists have them.
    ///
    /// - Parameters:
    ///   - call: who asks.
    ///   - rows: the page.
    ///   - cursor: where the next page begins; nil at the end.
    ///   - count: how many there are in all; nil where nobody counted.
    ///   - more: adds what a list has beside its rows.
    func answer(
        _ call: Call, page rows: [JSONObject], cursor: String?, count: Int? = nil, _ more: (inout JSONObject) -> Void = { _ in }
    ) {
        var meta = JSONObject()
        meta.set("cursor", orNull: cursor.map { call.isForNode ? $0 : longCursors.short($0) })
        meta.set("count", orNull: count)
        meta.set("as_of", Timestamp.text(call.startedAt.wallMilliseconds))
        var object = JSONObject()
        object.set("data", rows)
        more(&object)
        object.set("meta", meta)
        call.answer(object)
    }
}
