/// Keeps a copy of a damaged store, for whoever can read more of it.
struct DamagedFiles {
    let files: StoreFiles

    /// Copies the files into a directory of their own beside them, for good; gives back its path.
    func keep() throws(StoreError) -> String {
        let stem = files.aside(DiskFile.timestamp())
        var directory = stem
        var number = 1
        while DiskFile.size(directory) != nil {
            number += 1
            directory = "\(stem)-\(number)"
        }
        try DiskFile.createDirectory(directory)
        let copies = StoreFiles(directory: directory, name: files.name)
        for (file, copy) in [(files.database, copies.database), (files.log, copies.log), (files.mark, copies.mark)]
        where DiskFile.size(file) != nil {
            try DiskFile.copy(file, to: copy)
        }
        try DiskFile.synchronize(directory)
        try DiskFile.synchronize(files.directory)
        return directory
    }
}
