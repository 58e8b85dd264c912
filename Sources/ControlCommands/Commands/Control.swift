internal import HTTP
internal import JSON
internal import JSONReader

/// What `martlet ctl` does, one function a command: it asks the broker, and writes a table, or the API's JSON. Each throws when
/// the broker does not do it.
public struct Control {
    let service: any ControlService
    let output: ControlOutput

    public init(_ service: any ControlService, _ output: ControlOutput) { (self.service, self.output) = (service, output) }

    /// Seconds that `90s`, `10m`, `2h`, `7d` or `90` mean; nil for anything else.
    public static func seconds(_ text: String) -> Int? { Figures.seconds(text) }

    /// A success, or an error.
    func ask(_ request: ControlRequest) throws(ControlError) -> ControlAnswer {
        let answer = try service.answer(to: request)
        guard answer.isSuccess else { throw ControlError(answer) }
        return answer
    }

    /// The same of something that has a name, which is told where there is none.
    func ask(_ request: ControlRequest, about name: String?) throws(ControlError) -> ControlAnswer {
        let answer = try service.answer(to: request)
        guard answer.isSuccess else { throw name.map { ControlError(answer).about($0) } ?? ControlError(answer) }
        return answer
    }

    /// The JSON of a success.
    func value(_ answer: ControlAnswer) throws(ControlError) -> JSONValue {
        do throws(JSONError) {
            return try JSONValue(reading: answer.body)
        } catch {
            throw ControlError(.unreachable, "The broker's answer is no JSON: \(error).")
        }
    }

    /// Asks for rows, page by page if more are wanted than a page has.
    ///
    /// - Parameters:
    ///   - count: of the rows at most; nil for all.
    ///   - row: takes each; in JSON the pages are written as they are, one a line.
    /// - Returns: whether there are more.
    @discardableResult
    func eachRow(
        _ segments: [String], query: [(String, String?)] = [], count: Int?, _ row: (JSONValue) -> Void,
        ofPage: (JSONValue) -> Void = { _ in }
    ) throws(ControlError) -> Bool {
        var cursor: String?
        var left = count ?? Int.max
        repeat {
            let limit = ("limit", String(min(left, Limits.pageRowsMax)) as String?)
            let answer = try ask(ControlRequest(.get, segments, query: query + [limit, ("cursor", cursor)]))
            let page = try value(answer)
            if output.isJSON { output.put(answer.body) }
            page.rows.forEach(row)
            ofPage(page)
            left -= page.rows.count
            cursor = page.rows.isEmpty ? nil : page["meta"]["cursor"].string
        } while cursor != nil && left > 0
        return cursor != nil
    }

    /// Rows as a table.
    ///
    /// - Parameter closing: what is said below it of the last page; nil for nothing.
    func list(
        _ segments: [String], query: [(String, String?)] = [], count: Int?, _ columns: [TextTable.Column], orSay nothing: String,
        closing: (JSONValue) -> String? = { _ in nil }, _ cells: (JSONValue) -> [String]
    ) throws(ControlError) {
        var table = TextTable(columns)
        var last: String?
        let hasMore = try eachRow(segments, query: query, count: count) { row in
            if !output.isJSON { table.rows.append(cells(row)) }
        } ofPage: {
            last = closing($0)
        }
        guard !output.isJSON else { return }
        output.show(table, orSay: nothing)
        if hasMore { output.say("… and more: --all, or --limit with a larger number.") }
        if let last { output.say(last) }
    }

    /// An order, and what to say when it is done.
    ///
    /// - Parameter name: of what it is about; nil of what has none.
    func order(
        _ request: ControlRequest, about name: String? = nil, _ words: (JSONValue) -> String
    ) throws(ControlError) {
        let answer = try ask(request, about: name)
        if output.isJSON { return answer.body.isEmpty ? () : output.put(answer.body) }
        output.sayForeign(words(answer.body.isEmpty ? .null : try value(answer)))
    }
}
